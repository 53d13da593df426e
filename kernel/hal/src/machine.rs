//! The machine itself.

use bootloader_api::BootloaderConfig;
use bootloader_api::config::Mapping;

pub use self::start::start;

mod acpi;
pub(crate) mod apic;
mod backtrace;
pub(crate) mod control;
pub(crate) mod core_state;
pub mod cpu;
mod descriptors;
pub(crate) mod diagnosis;
mod dma;
pub(crate) mod features;
pub mod heap;
pub mod irq;
mod legacy;
mod memory;
mod msix;
pub mod nic;
mod others;
mod panic;
mod pci;
pub mod power;
pub mod random;
pub mod region;
pub(crate) mod scrub;
mod serial;
mod start;
pub mod time;
mod trampoline;
pub(crate) mod traps;
mod virtio;
mod window;

/// Size of the stack a core starts with and keeps, bytes. One per core is all there is: tasks are futures.
const KERNEL_STACK_BYTES: u64 = 128 * 1024;

/// What the kernel asks of the loader that starts it.
pub const BOOTLOADER_CONFIG: BootloaderConfig = {
    let mut config = BootloaderConfig::new_default();
    config.kernel_stack_size = KERNEL_STACK_BYTES;
    config.mappings.physical_memory = Some(Mapping::Dynamic);
    config.mappings.dynamic_range_start = Some(0xffff_8000_0000_0000);
    config.mappings.dynamic_range_end = Some(0xffff_ff7f_ffff_ffff);
    config
};
