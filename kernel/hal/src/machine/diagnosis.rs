//! The kernel's last words: cause, registers, back-trace. Then the end of the machine.
//!
//! They go to the console and nowhere else: whatever a message would need may be what broke, or what another core
//! holds. The service node reads them there (`host-tools/service-node/src/processes/last_words.rs`) and makes the RAS
//! event.

use core::arch::asm;
use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use x86_64::registers::control::Cr2;

use super::backtrace::Backtrace;
use super::core_state::Core;
use super::heap::{self, Usage};
use super::traps::{DOUBLE_FAULT, PAGE_FAULT, TrapFrame};
use super::{cpu, memory, power, serial};

/// Number of the core that ends the machine, counted from 1; 0 while none does.
static ENDING: AtomicUsize = AtomicUsize::new(0);

/// How many ends have begun. Whatever goes wrong during the first is not looked into.
static ENDS: AtomicU32 = AtomicU32::new(0);

/// Names of the processor's exceptions.
const NAMES: [&str; 22] = [
    "divide error",
    "debug exception",
    "non-maskable interrupt",
    "breakpoint",
    "overflow",
    "bound range exceeded",
    "invalid opcode",
    "device not available",
    "double fault",
    "coprocessor segment overrun",
    "invalid task state",
    "segment not present",
    "stack segment fault",
    "general protection fault",
    "page fault",
    "reserved exception",
    "x87 floating-point error",
    "alignment check",
    "machine check",
    "SIMD floating-point error",
    "virtualization exception",
    "control protection exception",
];

/// Stops this core for good if another one ends the machine. To be called when kicked, and not in the middle of a line
/// on the console.
pub(crate) fn stop_if_ending() {
    if ENDING.load(Ordering::Acquire) != 0 {
        power::halt();
    }
}

/// Says something at once, whatever was being said.
pub(super) fn emergency(text: fmt::Arguments<'_>) {
    serial::write_regardless(format_args!("\n{text}\n"));
}

/// What an exception is called.
pub(crate) fn name(vector: u8) -> &'static str {
    NAMES.get(usize::from(vector)).copied().unwrap_or("reserved exception")
}

/// The end, by an exception in the kernel.
pub(super) fn exception(frame: &TrapFrame) -> ! {
    let name = name(frame.vector as u8);
    let address = Cr2::read_raw();
    let (error, rip) = (frame.error, frame.rip);
    let cause = match frame.vector as u8 {
        PAGE_FAULT => format_args!("{name} at {address:#x} (error {error:#x}) in the kernel at {rip:#x}"),
        DOUBLE_FAULT => format_args!(
            "{name} in the kernel at {rip:#x}: the stack pointer {:#x} may have run over the stack's end (last page \
             fault: {address:#x})",
            frame.rsp
        ),
        _ => format_args!("{name} (error {error:#x}) in the kernel at {rip:#x}"),
    };
    end(cause, Some(frame), frame.rbp)
}

/// The end, by a panic.
pub(super) fn panicked(info: &PanicInfo<'_>) -> ! {
    let frame_pointer: u64;
    // SAFETY: only reads a register.
    unsafe { asm!("mov {}, rbp", out(reg) frame_pointer, options(nomem, nostack, preserves_flags)) };
    match info.location() {
        Some(location) => end(format_args!("{} ({location})", info.message()), None, frame_pointer),
        None => end(format_args!("{}", info.message()), None, frame_pointer),
    }
}

/// Says what is known, and ends the machine.
fn end(cause: fmt::Arguments<'_>, registers: Option<&TrapFrame>, frame_pointer: u64) -> ! {
    let number = Core::current().index + 1;
    match ENDING.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => (0..cpu::count()).filter(|core| core + 1 != number).for_each(cpu::kick),
        // The machine ends already: what comes of that on other cores is no news.
        Err(first) if first != number => power::halt(),
        Err(_) => {}
    }
    match ENDS.fetch_add(1, Ordering::Relaxed) {
        0 => {}
        1 => {
            emergency(format_args!("... and then: {cause}"));
            power::exit(power::STATUS_PANIC)
        }
        _ => power::exit(power::STATUS_PANIC),
    }
    emergency(format_args!("kernel panic: {cause}"));
    if let Some(registers) = registers {
        serial::write_regardless(format_args!("{}\n", Listing(registers)));
    }
    for address in Backtrace::from(frame_pointer) {
        serial::write_regardless(format_args!("  called from {address:#018x}\n"));
    }
    if let Some(Usage { used_bytes, held_bytes, promised_bytes, limit_bytes }) = heap::last_usage() {
        serial::write_regardless(format_args!(
            "  heap: {used_bytes} bytes used, {promised_bytes} promised, {held_bytes} held of at most {limit_bytes}; \
             {} frames are free\n",
            memory::frames().free_frames()
        ));
    }
    power::exit(power::STATUS_PANIC)
}

/// All registers, four in a line.
struct Listing<'a>(&'a TrapFrame);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(at) = self;
        writeln!(f, "  rip {:016x}  rsp {:016x}  rbp {:016x}  rflags {:08x}", at.rip, at.rsp, at.rbp, at.rflags)?;
        writeln!(f, "  rax {:016x}  rbx {:016x}  rcx {:016x}  rdx {:016x}", at.rax, at.rbx, at.rcx, at.rdx)?;
        writeln!(f, "  rsi {:016x}  rdi {:016x}  r8  {:016x}  r9  {:016x}", at.rsi, at.rdi, at.r8, at.r9)?;
        writeln!(f, "  r10 {:016x}  r11 {:016x}  r12 {:016x}  r13 {:016x}", at.r10, at.r11, at.r12, at.r13)?;
        write!(
            f,
            "  r14 {:016x}  r15 {:016x}  cs {:04x}  ss {:04x}  error {:x}",
            at.r14, at.r15, at.cs, at.ss, at.error
        )
    }
}
