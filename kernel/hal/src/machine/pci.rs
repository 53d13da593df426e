//! Devices on the PCI bus, through the configuration ports.

use virtio_drivers::transport::DeviceType;
use virtio_drivers::transport::pci::bus::{Command, ConfigurationAccess, DeviceFunction, DeviceFunctionInfo, PciRoot};
use virtio_drivers::transport::pci::virtio_device_type;
use x86_64::instructions::port::{Port, PortWriteOnly};

use super::window::{self, Kind};

/// The configuration ports.
pub(super) struct ConfigurationPorts;

/// Port that selects a register.
const SELECT: u16 = 0xcf8;

/// Port of the selected register.
const DATA: u16 = 0xcfc;

/// Selects a register of a function.
fn select(function: DeviceFunction, register: u8) {
    let address = 1 << 31
        | u32::from(function.bus) << 16
        | u32::from(function.device) << 11
        | u32::from(function.function) << 8
        | u32::from(register & 0xfc);
    // SAFETY: selecting has no effect but on the data port, which is used right afterwards, by one core, interrupts
    // off.
    unsafe { PortWriteOnly::new(SELECT).write(address) };
}

impl ConfigurationAccess for ConfigurationPorts {
    fn read_word(&self, function: DeviceFunction, register: u8) -> u32 {
        select(function, register);
        // SAFETY: reading configuration registers has no effect.
        unsafe { Port::new(DATA).read() }
    }

    fn write_word(&mut self, function: DeviceFunction, register: u8, data: u32) {
        select(function, register);
        // SAFETY: only the functions of drivers in this crate are written to, by those.
        unsafe { Port::new(DATA).write(data) };
    }

    unsafe fn unsafe_clone(&self) -> Self {
        Self
    }
}

/// Maps all registers of a function that are in memory, wherever firmware has put them: nobody here does. `None` if
/// that cannot be done: the processor does not reach them, or they are too many.
pub(super) fn map_registers(root: &mut PciRoot<ConfigurationPorts>, function: DeviceFunction) -> Option<()> {
    let regions = root.bars(function).ok()?;
    for (base, bytes) in regions.into_iter().flatten().filter_map(|region| region.memory_address_size()) {
        if base != 0 && bytes != 0 {
            let _anywhere = window::at(base, usize::try_from(bytes).ok()?, Kind::Registers)?;
        }
    }
    Some(())
}

/// The first virtio device of a type on the first bus.
pub(super) fn find(wanted: DeviceType) -> Option<(PciRoot<ConfigurationPorts>, DeviceFunction)> {
    find_by(|info| virtio_device_type(info) == Some(wanted))
}

/// The first device on the first bus of which that is so.
pub(super) fn find_by(
    is_wanted: impl Fn(&DeviceFunctionInfo) -> bool,
) -> Option<(PciRoot<ConfigurationPorts>, DeviceFunction)> {
    let mut root = PciRoot::new(ConfigurationPorts);
    let mut functions = root.enumerate_bus(0);
    let (function, _) = functions.find(|(_, info)| is_wanted(info))?;
    let (_, command) = root.get_status_command(function);
    root.set_command(function, command | Command::MEMORY_SPACE | Command::BUS_MASTER | Command::INTERRUPT_DISABLE);
    Some((root, function))
}
