//! The core's interrupt controller: acknowledging interrupts, and its one-shot timer.
//!
//! Its registers are in memory (xAPIC), or, where firmware has left it so because there are many cores, registers of
//! the processor (x2APIC; SDM volume 3, 10.12). All cores use it as the first one does.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use x86_64::registers::model_specific::Msr;

use super::core_state::Core;
use super::features;
use super::irq::{VECTOR_KICK, VECTOR_SPURIOUS, VECTOR_TIMER};
use super::window::{self, Kind};
use crate::CORES_MAX;

/// Says where the controller's registers are, and in which way it is used.
const MSR_BASE: u32 = 0x1b;

/// Bit of [`MSR_BASE`]: on.
const BASE_ENABLED: u64 = 1 << 11;

/// Bit of [`MSR_BASE`]: the registers are the processor's.
const BASE_X2: u64 = 1 << 10;

/// Number of the first of them.
const MSR_REGISTERS: u32 = 0x800;

/// Bytes of the controller's registers.
const REGISTER_BYTES: usize = 4096;

/// Offsets of registers.
mod register {
    pub(super) const ID: usize = 0x20;
    pub(super) const VERSION: usize = 0x30;
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

/// Where the registers are in memory, if they are. Each core sees its own there.
static REGISTERS: AtomicPtr<u32> = AtomicPtr::new(core::ptr::null_mut());

/// Whether they are the processor's own.
static IS_X2: AtomicBool = AtomicBool::new(false);

/// Numbers of the cores' controllers.
static IDS: [AtomicU32; CORES_MAX] = [const { AtomicU32::new(0) }; CORES_MAX];

/// Divides the timer's clock by 128: fine enough for alarms, and long alarms need no second setting.
const DIVIDE_BY_128: u32 = 0b1010;

/// Where messages that cause interrupts are written to; the core's number goes into bits 12 to 19.
const MESSAGE_ADDRESS: u64 = 0xfee0_0000;

/// Sets the core's controller up, with everything off but the non-maskable line. The first core does this first.
///
/// # Panics
/// If there is no memory for mapping its registers.
pub(super) fn start() {
    let mut base = Msr::new(MSR_BASE);
    // SAFETY: every processor with such a controller has the register.
    let now = unsafe { base.read() };
    if Core::current().index == 0 {
        let is_x2 = features::has(features::X2APIC) && now & (BASE_X2 | BASE_ENABLED) == BASE_X2 | BASE_ENABLED;
        if !is_x2 {
            let physical = now & (features::physical_end() - 1) & !(REGISTER_BYTES as u64 - 1);
            let place = window::at(physical, REGISTER_BYTES, Kind::Registers);
            REGISTERS.store(place.expect("the interrupt controller is mapped").cast(), Ordering::Relaxed);
        }
        IS_X2.store(is_x2, Ordering::Relaxed);
    }
    // SAFETY: the steps between the ways that the processor knows: off and on again, and from memory to registers (SDM
    // volume 3, 10.12.5). The registers in memory stay where they are.
    unsafe {
        if IS_X2.load(Ordering::Relaxed) {
            base.write(now | BASE_ENABLED);
            base.write(now | BASE_ENABLED | BASE_X2);
        } else {
            if now & BASE_X2 != 0 {
                base.write(now & !(BASE_X2 | BASE_ENABLED));
            }
            base.write(now & !BASE_X2 | BASE_ENABLED);
        }
    }
    // Not every controller has all lines; writing one that is not there is an error, in x2APIC a fault.
    let last_line = read(register::VERSION) >> 16 & 0xff;
    for (number, line) in [
        (0, register::TIMER),
        (1, register::LINE_0),
        (3, register::ERROR),
        (4, register::PERFORMANCE),
        (5, register::THERMAL),
    ] {
        if number <= last_line {
            write(line, MASKED);
        }
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
pub(super) fn assign(core: usize, id: u32) {
    IDS[core].store(id, Ordering::Relaxed);
}

/// Number of this core's controller.
pub(super) fn id() -> u32 {
    let id = read(register::ID);
    if IS_X2.load(Ordering::Relaxed) { id } else { id >> 24 }
}

/// The last number that a core's controller may have for [`interrupt`] to reach it.
pub(super) fn id_max() -> u32 {
    // The last one of each way means all cores.
    if IS_X2.load(Ordering::Relaxed) { u32::MAX - 1 } else { 0xfe }
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
    let Some(id) = IDS.get(core).map(|id| id.load(Ordering::Relaxed)) else { return };
    if IS_X2.load(Ordering::Relaxed) {
        // What was written to memory before has to be there first: unlike a write to the registers in memory, one to
        // the processor's does not wait for that (SDM volume 3, 10.12.3). It is one command, and none can be on its
        // way. SAFETY: as `write`.
        unsafe {
            asm!("mfence", "lfence", options(nostack, preserves_flags));
            x2(register::COMMAND).write(u64::from(id) << 32 | u64::from(command));
        }
        return;
    }
    while read(register::COMMAND) & PENDING != 0 {
        core::hint::spin_loop();
    }
    write(register::COMMAND_DESTINATION, id << 24);
    write(register::COMMAND, command);
}

/// Address and data of the message with which a device interrupts this core. `None` if messages cannot say its number,
/// which takes more than 8 bits (SDM volume 3, 10.11.1): that needs a unit that translates them.
pub(super) fn message(vector: u8) -> Option<(u64, u32)> {
    let id = u8::try_from(id()).ok()?;
    Some((MESSAGE_ADDRESS | u64::from(id) << 12, u32::from(vector)))
}

fn read(register: usize) -> u32 {
    if IS_X2.load(Ordering::Relaxed) {
        // SAFETY: the controller has the register, and reading any of those used here has no effect.
        return unsafe { x2(register).read() as u32 };
    }
    // SAFETY: the controller's page was mapped by `start`, and reading any of its registers used here has no effect.
    unsafe { REGISTERS.load(Ordering::Relaxed).wrapping_byte_add(register).read_volatile() }
}

fn write(register: usize, value: u32) {
    if IS_X2.load(Ordering::Relaxed) {
        // SAFETY: the controller has the register; writing it affects this core's interrupts only, for which there are
        // gates.
        unsafe { x2(register).write(value.into()) };
        return;
    }
    // SAFETY: as above, in the page that was mapped by `start`.
    unsafe { REGISTERS.load(Ordering::Relaxed).wrapping_byte_add(register).write_volatile(value) };
}

/// One of the registers that are the processor's: they have the order of those in memory.
fn x2(register: usize) -> Msr {
    Msr::new(MSR_REGISTERS + (register >> 4) as u32)
}
