//! Exceptions and interrupts: the table of gates, and what happens to those that come while the kernel runs. (Those
//! that come while a program runs end [`crate::user::UserThread::enter`].)
//!
//! An exception in the kernel is a defect of the kernel, and its end. An interrupt is acknowledged and noted.

use core::arch::asm;

use spin::Once;
use x86_64::VirtAddr;
use x86_64::structures::DescriptorTablePointer;

use self::stubs::{STUB_BYTES, stubs};
use super::descriptors::{KERNEL_CODE, KERNEL_DATA, ist};
use super::{diagnosis, irq};

mod stubs;

/// Non-maskable interrupt.
pub(crate) const NMI: u8 = 2;
/// Double fault.
pub(crate) const DOUBLE_FAULT: u8 = 8;
/// Page fault.
pub(crate) const PAGE_FAULT: u8 = 14;
/// Machine check.
pub(crate) const MACHINE_CHECK: u8 = 18;
/// Vectors up to this are the processor's exceptions.
pub(crate) const EXCEPTION_LAST: u8 = 31;

/// Debug exception.
pub(crate) const DEBUG: u8 = 1;
/// Breakpoint instruction.
const BREAKPOINT: u8 = 3;

/// The trap flag, with which every instruction ends in a debug exception.
const TRAP_FLAG: u64 = 1 << 8;

/// All registers of the kernel when it was interrupted, as the stubs leave them on the stack.
#[derive(Debug)]
#[repr(C)]
pub(super) struct TrapFrame {
    pub(super) r15: u64,
    pub(super) r14: u64,
    pub(super) r13: u64,
    pub(super) r12: u64,
    pub(super) r11: u64,
    pub(super) r10: u64,
    pub(super) r9: u64,
    pub(super) r8: u64,
    pub(super) rbp: u64,
    pub(super) rdi: u64,
    pub(super) rsi: u64,
    pub(super) rdx: u64,
    pub(super) rcx: u64,
    pub(super) rbx: u64,
    pub(super) rax: u64,
    pub(super) vector: u64,
    pub(super) error: u64,
    pub(super) rip: u64,
    pub(super) cs: u64,
    pub(super) rflags: u64,
    pub(super) rsp: u64,
    pub(super) ss: u64,
}

/// The gates, two words each, the same for all cores.
static GATES: Once<[[u64; 2]; 256]> = Once::new();

/// Makes the gates the core's.
pub(super) fn start() {
    let gates = GATES.call_once(|| core::array::from_fn(|vector| gate(vector as u8)));
    let pointer = DescriptorTablePointer { limit: size_of_val(gates) as u16 - 1, base: VirtAddr::from_ptr(gates) };
    // SAFETY: all 256 gates lead to their stubs through the kernel's code segment; the table is never freed.
    unsafe { x86_64::instructions::tables::lidt(&pointer) };
}

/// The gate of a vector: an interrupt gate, so that interrupts are off behind it.
fn gate(vector: u8) -> [u64; 2] {
    let stub = stubs as *const () as u64 + u64::from(vector) * STUB_BYTES;
    let stack = match vector {
        DOUBLE_FAULT => ist::DOUBLE_FAULT,
        NMI => ist::NMI,
        MACHINE_CHECK => ist::MACHINE_CHECK,
        DEBUG => ist::DEBUG,
        _ => 0,
    };
    // A program may cause a breakpoint by instruction, and nothing else, but for `int1`: that asks for no privilege.
    let privilege: u64 = if vector == BREAKPOINT { 3 } else { 0 };
    let kind = 0x8e | privilege << 5;
    let low = stub & 0xffff
        | u64::from(KERNEL_CODE) << 16
        | u64::from(stack) << 32
        | kind << 40
        | (stub >> 16 & 0xffff) << 48;
    [low, stub >> 32]
}

/// What the stubs call when the kernel was interrupted.
extern "sysv64" fn kernel_trap(frame: &mut TrapFrame) {
    match frame.vector as u8 {
        NMI => report_nmi("the kernel", frame.rip),
        // Left over from a program that traced itself; there are no watchpoints.
        DEBUG => frame.rflags &= !TRAP_FLAG,
        ..=EXCEPTION_LAST => diagnosis::exception(frame),
        vector => irq::handle(vector),
    }
}

/// Somebody wants to know whether the machine is alive (QEMU's monitor can send this interrupt).
pub(crate) fn report_nmi(running: &str, rip: u64) {
    diagnosis::emergency(format_args!("non-maskable interrupt while {running} ran at {rip:#x}"));
}

/// Lets non-maskable interrupts in again, which the processor holds back from one on until the next `iretq` (SDM volume
/// 3, 6.7.1): one that came while a program ran is left by an ordinary return, and the core may go into programs by
/// `sysretq` for long. What it put on its stack has been taken from there, so that another one may come at once.
pub(crate) fn let_nmis_in() {
    // SAFETY: goes on behind itself with the same stack, segments and flags. What is pushed is popped again.
    unsafe {
        asm!(
            "mov {scratch}, rsp",
            "push {data}",
            "push {scratch}",
            "pushfq",
            "push {code}",
            "lea {scratch}, [rip + 2f]",
            "push {scratch}",
            "iretq",
            "2:",
            scratch = out(reg) _,
            data = const KERNEL_DATA,
            code = const KERNEL_CODE,
        );
    }
}

/// What the processor says of the debug exception that a program came back with. It only ever adds to that register
/// (SDM volume 3, 17.2.3), so it is made as it is at reset.
pub(crate) fn take_debug_status() -> u64 {
    const AT_RESET: u64 = 0xffff_0ff0;
    let status: u64;
    // SAFETY: this register only tells; it has no effect.
    unsafe {
        asm!("mov {}, dr6", "mov dr6, {}", out(reg) status, in(reg) AT_RESET, options(nomem, nostack, preserves_flags));
    }
    status
}
