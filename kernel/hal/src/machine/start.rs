//! From the loader's hand-over to a machine that the kernel above can use.

use bootloader_api::BootInfo;
use virtio_drivers::transport::DeviceType;

use super::nic::Nic;
use super::{
    acpi, apic, control, core_state, features, heap, legacy, memory, others, pci, region, serial, time, traps, window,
};
use crate::Machine;
use crate::user::fpu;

/// Sets the machine up. To be called once, first of all, by the core the loader started.
///
/// # Panics
/// If the loader or the machine lacks what the kernel needs.
pub fn start(boot_info: &'static mut BootInfo) -> Machine {
    core_state::start_boot_core(boot_info.kernel_stack_bottom);
    traps::start();
    serial::start();
    features::require();
    let entered = time::counter();
    fpu::start();
    control::start();
    let frames = memory::start(boot_info);
    heap::start(frames);
    window::start();
    legacy::silence();
    apic::start();
    let tables = boot_info.rsdp_addr.into_option();
    let timer = tables.and_then(acpi::timer_port);
    time::start(entered, timer.expect("a power-management timer in the firmware's tables"));
    time::report();
    if let Some(tables) = tables {
        others::find(tables);
    }
    let nic = pci::find(DeviceType::Network).and_then(|(root, function)| match Nic::start(root, function) {
        Ok(nic) => Some(nic),
        Err(error) => {
            log::error!("the network card does not start: {error}");
            None
        }
    });
    let region = region::start();
    log::debug!("{} frames of memory", frames.total_frames());
    Machine { memory_bytes: memory::bytes(boot_info), frames, personality: personality(boot_info), nic, region }
}

/// What the loader brought.
fn personality(boot_info: &BootInfo) -> &'static [u8] {
    match (boot_info.ramdisk_addr.into_option(), usize::try_from(boot_info.ramdisk_len)) {
        (Some(address), Ok(length)) if length > 0 => {
            // SAFETY: the loader mapped the ramdisk there for good, and its memory is not usable, so nobody writes to
            // it.
            unsafe { core::slice::from_raw_parts(address as *const u8, length) }
        }
        _ => &[],
    }
}
