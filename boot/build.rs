//! Links the loader where QEMU puts it, and prepares the kernel it carries: everything that is loaded, without the
//! symbols and line tables behind it.

use std::path::PathBuf;
use std::{env, fs, process};

use elf::ElfBytes;
use elf::endian::LittleEndian;

/// Names the kernel, an ELF file for this target.
const KERNEL: &str = "COPPICE_KERNEL_ELF";

/// Section with what the kernel asks of its loader.
const CONFIG: &str = ".bootloader-config";

/// Bytes of a section header.
const SECTION_BYTES: usize = 64;

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/linker.ld");
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rerun-if-env-changed={KERNEL}");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        // On the host there is nothing to load.
        return;
    }
    println!("cargo::rustc-link-arg-bins=-T{script}");
    match prepare() {
        Ok(kernel) => println!("cargo::rustc-env={KERNEL}={}", kernel.display()),
        Err(reason) => {
            println!("cargo::error={reason}");
            process::exit(1);
        }
    }
}

/// Writes the kernel as it is carried, and says where.
fn prepare() -> Result<PathBuf, String> {
    let kernel = env::var_os(KERNEL).map(PathBuf::from).ok_or(format!(
        "{KERNEL} is not set: build coppice-kernel first and name its file there (`cargo xtask build` does both)"
    ))?;
    println!("cargo::rerun-if-changed={}", kernel.display());
    let whole = fs::read(&kernel).map_err(|error| format!("cannot read {}: {error}", kernel.display()))?;
    let carried = strip(&whole).map_err(|reason| format!("{} is no kernel: {reason}", kernel.display()))?;
    let place = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?).join("kernel.elf");
    fs::write(&place, carried).map_err(|error| format!("cannot write {}: {error}", place.display()))?;
    Ok(place)
}

/// The kernel's file up to the end of its segments, and behind that a section table with [`CONFIG`] alone.
fn strip(whole: &[u8]) -> Result<Vec<u8>, String> {
    let file = ElfBytes::<LittleEndian>::minimal_parse(whole).map_err(|error| error.to_string())?;
    let segments = file.segments().ok_or("it has no segments")?;
    let end = segments.iter().map(|segment| segment.p_offset + segment.p_filesz).max().unwrap_or(0);
    let config = file.section_header_by_name(CONFIG).map_err(|error| error.to_string())?;
    let config = config.ok_or(format!("it has no section {CONFIG}"))?;
    let loaded = usize::try_from(end).ok().and_then(|end| whole.get(..end)).ok_or("it is cut short")?;

    let names = format!("\0{CONFIG}\0.shstrtab\0");
    let names_at = loaded.len().next_multiple_of(8);
    let table_at = (names_at + names.len()).next_multiple_of(8);
    let mut carried = loaded.to_vec();
    carried.resize(names_at, 0);
    carried.extend_from_slice(names.as_bytes());
    carried.resize(table_at, 0);
    carried.extend_from_slice(&[0; SECTION_BYTES]);
    carried.extend_from_slice(&section(1, config.sh_type, config.sh_addr, config.sh_offset, config.sh_size));
    let string_table = 3;
    let name = 1 + CONFIG.len() as u32 + 1;
    carried.extend_from_slice(&section(name, string_table, 0, names_at as u64, names.len() as u64));
    // Where the table is, how long its entries are, how many, and which has the names.
    carried[0x28..0x30].copy_from_slice(&(table_at as u64).to_le_bytes());
    carried[0x3a..0x3c].copy_from_slice(&(SECTION_BYTES as u16).to_le_bytes());
    carried[0x3c..0x3e].copy_from_slice(&3u16.to_le_bytes());
    carried[0x3e..0x40].copy_from_slice(&2u16.to_le_bytes());
    Ok(carried)
}

/// A section header.
fn section(name: u32, kind: u32, address: u64, offset: u64, size: u64) -> [u8; SECTION_BYTES] {
    let mut bytes = [0; SECTION_BYTES];
    bytes[0..4].copy_from_slice(&name.to_le_bytes());
    bytes[4..8].copy_from_slice(&kind.to_le_bytes());
    bytes[16..24].copy_from_slice(&address.to_le_bytes());
    bytes[24..32].copy_from_slice(&offset.to_le_bytes());
    bytes[32..40].copy_from_slice(&size.to_le_bytes());
    bytes[48..56].copy_from_slice(&1u64.to_le_bytes());
    bytes
}
