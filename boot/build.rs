//! Links the loader at its fixed place, and insists on the kernel it has to carry.

fn main() {
    println!("cargo::rerun-if-env-changed=COPPICE_KERNEL_ELF");
    println!("cargo::rerun-if-changed=link.ld");
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rustc-link-arg-bins=-T{root}/link.ld");
    match std::env::var("COPPICE_KERNEL_ELF") {
        Ok(kernel) if std::path::Path::new(&kernel).is_file() => println!("cargo::rerun-if-changed={kernel}"),
        Ok(kernel) => println!("cargo::error=COPPICE_KERNEL_ELF names {kernel}, which is no file"),
        Err(_) => println!(
            "cargo::error=COPPICE_KERNEL_ELF must name the kernel the loader carries; `cargo xtask build` builds both"
        ),
    }
}
