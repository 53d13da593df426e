//! The core's interrupt controller: acknowledging interrupts, and its one-shot timer.

use core::sync::atomic::{AtomicU32, Ordering};

use x86_64::registers::model_specific::ApicBase;

use super::core_state::Core;
use super::irq::{VECTOR_KICK, VECTOR_SPURIOUS, VECTOR_TIMER};
use super::memory;
use crate::CORES_MAX;

/// Bytes of the controller's registers.
const REGISTER_BYTES: usize = 4096;

/// Offsets of registers.
mod register {
    pub(super) const ID: usize = 0x20;
    pub(super) const TASK_PRIORITY: usize = 0x80;
    pub(super) const END_OF_INTERRUPT: usize = 0xb0;
    pub(super) const SPURIOUS: usize = 0xf0;
    pub(super) const COMMAND: usize = 0x300;
    pub(super) const COMMAND_DESTINATION: usize = 0x310;
    pub(super) const TIMER: usize = 0x320;
    pub(super) const THERMAL: usize = 0x330;
    pub(super) const PERFORMANCE: usize = 0x340;
    pub(super) const LINE_0: usize = 0x350;
    pub(super) const LINE_1: usize = 0x360;
    pub(super) const ERROR: usize = 0x370;
    pub(super) const INITIAL_COUNT: usize = 0x380;
    pub(super) const CURRENT_COUNT: usize = 0x390;
    pub(super) const DIVIDE: usize = 0x3e0;
}

/// Bit of a local vector: no interrupt.
const MASKED: u32 = 1 << 16;

/// Delivery mode of a local vector: non-maskable.
const NON_MASKABLE: u32 = 4 << 8;

/// Bit of the spurious-vector register: the controller is on.
const ENABLED: u32 = 1 << 8;

/// Bit of the command register: the last command is on its way still.
const PENDING: u32 = 1 << 12;

/// Commands: reset the core, start the core, and the level they all have.
const COMMAND_RESET: u32 = 5 << 8;
const COMMAND_START: u32 = 6 << 8;
const COMMAND_ASSERT: u32 = 1 << 14;

/// Numbers of the cores' controllers.
static IDS: [AtomicU32; CORES_MAX] = [const { AtomicU32::new(0) }; CORES_MAX];

/// Divides the timer's clock by 128: fine enough for alarms, and long alarms need no second setting.
const DIVIDE_BY_128: u32 = 0b1010;

/// Where messages that cause interrupts are written to; the core's number goes into bits 12 to 19.
const MESSAGE_ADDRESS: u64 = 0xfee0_0000;

/// Sets the core's controller up, with everything off but the non-maskable line.
///
/// # Panics
/// If its registers are not in the direct map.
pub(super) fn start() {
    let (base, flags) = ApicBase::read();
    // SAFETY: this turns the controller on where it is.
    unsafe { ApicBase::write(base, flags | x86_64::registers::model_specific::ApicBaseFlags::LAPIC_ENABLE) };
    for line in [register::THERMAL, register::PERFORMANCE, register::LINE_0, register::ERROR, register::TIMER] {
        write(line, MASKED);
    }
    write(register::LINE_1, NON_MASKABLE);
    write(register::TASK_PRIORITY, 0);
    write(register::SPURIOUS, ENABLED | u32::from(VECTOR_SPURIOUS));
    write(register::DIVIDE, DIVIDE_BY_128);
    write(register::INITIAL_COUNT, 0);
    write(register::TIMER, u32::from(VECTOR_TIMER));
    assign(Core::current().index, id());
}

/// Says that the interrupt being handled is.
pub(super) fn acknowledge() {
    write(register::END_OF_INTERRUPT, 0);
}

/// Lets the timer interrupt once after `ticks`; 0 for never.
pub(super) fn set_timer(ticks: u32) {
    write(register::INITIAL_COUNT, ticks);
}

/// What is left of the ticks the timer was set to.
pub(super) fn timer_ticks_left() -> u32 {
    read(register::CURRENT_COUNT)
}

/// Interrupts another core, or this one.
pub(crate) fn interrupt(core: usize) {
    command(core, u32::from(VECTOR_KICK));
}

/// Which controller is the core's whose number is `core`.
pub(super) fn assign(core: usize, id: u8) {
    IDS[core].store(id.into(), Ordering::Relaxed);
}

/// Number of this core's controller.
pub(super) fn id() -> u8 {
    (read(register::ID) >> 24) as u8
}

/// Resets another core, which waits for [`start_at`] then.
pub(super) fn reset(core: usize) {
    command(core, COMMAND_RESET | COMMAND_ASSERT);
}

/// Lets a core that was reset begin at a page below the first MiB.
pub(super) fn start_at(core: usize, page: u8) {
    command(core, COMMAND_START | COMMAND_ASSERT | u32::from(page));
}

/// Sends a command to another core.
fn command(core: usize, command: u32) {
    let Some(id) = IDS.get(core) else { return };
    while read(register::COMMAND) & PENDING != 0 {
        core::hint::spin_loop();
    }
    write(register::COMMAND_DESTINATION, id.load(Ordering::Relaxed) << 24);
    write(register::COMMAND, command);
}

/// Address and data of the message with which a device interrupts this core.
pub(super) fn message(vector: u8) -> (u64, u32) {
    (MESSAGE_ADDRESS | u64::from(id()) << 12, u32::from(vector))
}

fn read(register: usize) -> u32 {
    // SAFETY: `registers` gives the controller's page, and reading any of its registers used here has no effect.
    unsafe { registers().wrapping_byte_add(register).read_volatile() }
}

fn write(register: usize, value: u32) {
    // SAFETY: as above; writing them affects this core's interrupts only, for which there are gates.
    unsafe { registers().wrapping_byte_add(register).write_volatile(value) };
}

/// Where the registers are. Each core sees its own there.
fn registers() -> *mut u32 {
    /// Where the firmware leaves them; asking the processor each time would cost more than using them.
    const REGISTERS: u64 = 0xfee0_0000;
    memory::at(REGISTERS, REGISTER_BYTES).expect("the interrupt controller is mapped").cast()
}
