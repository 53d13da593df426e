//! The compute-node kernel: assembles hal and core.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod node {
    use bootloader_api::{BootInfo, entry_point};
    use coppice_hal::BOOTLOADER_CONFIG;

    entry_point!(start, config = &BOOTLOADER_CONFIG);

    /// Where the loader leads.
    fn start(boot_info: &'static mut BootInfo) -> ! {
        coppice_core::run(coppice_hal::start(boot_info))
    }
}

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("the kernel runs on nodes: see `cargo xtask build`");
}
