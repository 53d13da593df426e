//! PVH loader: from QEMU's `-kernel` to a `bootloader_api` entry point.
//!
//! QEMU enters at [`entry`] in 32-bit mode; from there on, in order: [`start_info`] copies what the machine says of
//! itself, [`image`] reads the kernel that is built into this program, [`tables`] makes the address space its
//! configuration asks for out of memory from [`frames`], and [`hand_over`] describes it all in a `BootInfo` and jumps.
//!
//! Nothing of PVH reaches the kernel; any other `bootloader_api` loader can boot it. Everything here runs once, on one
//! core, with interrupts off; whatever goes wrong is one line on the serial port and the end of the machine.
#![no_std]
#![no_main]

mod console;
mod entry;
mod frames;
mod hand_over;
mod image;
mod layout;
mod start_info;
mod tables;

use core::panic::PanicInfo;

use crate::console::{fail, print};
use crate::frames::Frames;
use crate::image::Kernel;
use crate::layout::Layout;
use crate::start_info::Machine;
use crate::tables::AddressSpace;

/// The kernel, aligned so that its headers can be read in place.
#[repr(C, align(4096))]
struct Aligned<T: ?Sized>(T);

static KERNEL: &Aligned<[u8]> = &Aligned(*include_bytes!(env!("COPPICE_KERNEL_ELF")));

/// Called by [`entry`] in long mode, on the loader's own stack, with the first 4 GiB mapped one to one.
extern "C" fn load(start_info: u64) -> ! {
    match boot(start_info) {
        Ok(ready) => ready.jump(),
        Err(reason) => fail(reason),
    }
}

/// Everything up to the jump.
fn boot(start_info: u64) -> Result<hand_over::Ready, &'static str> {
    let machine = Machine::read(start_info)?;
    let kernel = Kernel::read(&KERNEL.0)?;
    let mut frames = Frames::above_loader(&machine)?;
    let mut layout = Layout::new(&kernel)?;
    let mut space = AddressSpace::new(&mut frames)?;
    kernel.map(&mut space, &mut frames)?;
    hand_over::prepare(&machine, &kernel, &mut layout, space, frames)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    print(format_args!("boot: panic: {}\n", info.message()));
    fail("internal error in the loader")
}
