//! Links the kernel where it runs.

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/linker.ld");
    println!("cargo::rerun-if-changed={script}");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo::rustc-link-arg-bins=-T{script}");
    }
}
