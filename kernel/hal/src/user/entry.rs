//! The way into a program and back.
//!
//! A program is left in two ways. A system call comes in at [`syscall_entry`] with the program's stack pointer still in
//! place; an exception or interrupt comes in through a gate ([`leave_by_trap`], behind the stubs of the interrupt
//! table) with a frame on the core's trap stack. Both put all registers into the thread and return to the caller of
//! [`enter_user`], on the kernel stack as it was left there.
//!
//! `sysretq` takes back a thread that made a system call: it is the quicker instruction, and `rcx` and `r11`, which it
//! destroys, were destroyed by the call. All others need `iretq`. Neither ever sees an instruction pointer outside the
//! program's half: `sysretq` with a non-canonical one faults in the kernel with the program's stack pointer.

use core::arch::naked_asm;
use core::mem::offset_of;

use x86_64::registers::control::Cr2;

use super::{Registers, UserExit, UserThread};
use crate::machine::core_state::Core;
use crate::machine::{diagnosis, irq, traps};

/// What [`enter_user`] returns for a system call; otherwise it returns [`TRAP`] plus the vector.
pub(super) const SYSCALL: u64 = 0;

/// See [`SYSCALL`].
const TRAP: u64 = 0x100;

/// Selector of the program's code segment.
pub(crate) const USER_CODE: u16 = 0x20 | 3;

/// Selector of the program's data segment, as a stack segment.
pub(crate) const USER_DATA: u16 = 0x18 | 3;

/// Flags a program may have as it likes: CF, PF, AF, ZF, SF, TF, DF, OF, NT, RF, AC, ID. All others are made what they
/// have to be: IF on, IOPL 0.
const USER_FLAGS: u32 = 0x0025_4dd5;

/// The trap flag: every instruction ends in a debug exception.
const TRAP_FLAG: u32 = 1 << 8;

/// IF, and the bit that is always 1.
const FIXED_FLAGS: u32 = 0x202;

/// What is left of flags in the kernel: see [`crate::machine`]'s system-call mask for the other way in.
const KERNEL_FLAGS: u32 = 2;

/// What the processor said of the exception or interrupt a thread came back with.
#[repr(C)]
pub(super) struct Trap {
    /// Number of the exception or interrupt.
    vector: u64,
    /// The processor's error code.
    error: u64,
    /// Not 0: all registers have to be given back, which `sysretq` cannot do.
    restore_all: u64,
}

impl Trap {
    /// Of a thread that comes from nowhere.
    pub(super) const fn restore_all() -> Self {
        Self { vector: 0, error: 0, restore_all: 1 }
    }
}

/// Says why a thread came back that made no system call, after acknowledging an interrupt; `None`: for another core's
/// sake, and it may go on if that has nothing else to say.
#[cold]
pub(super) fn explain(returned: u64, trap: &Trap, regs: &Registers) -> Option<UserExit> {
    /// The page is mapped, but not for this.
    const PRESENT: u64 = 1 << 0;
    /// The program itself accessed it, not the processor for it.
    const BY_PROGRAM: u64 = 1 << 2;

    let vector = (returned - TRAP) as u8;
    Some(match vector {
        // Nothing a page could be given would help: the access is not the program's own.
        traps::PAGE_FAULT if trap.error & PRESENT != 0 && trap.error & BY_PROGRAM == 0 => {
            UserExit::Exception { vector: super::vector::GENERAL_PROTECTION, error: 0 }
        }
        traps::PAGE_FAULT => UserExit::PageFault {
            address: Cr2::read_raw(),
            write: trap.error & 1 << 1 != 0,
            execute: trap.error & 1 << 4 != 0,
            present: trap.error & PRESENT != 0,
        },
        traps::NMI => {
            traps::report_nmi("a program", regs.rip);
            traps::let_nmis_in();
            UserExit::Interrupt
        }
        traps::DEBUG => UserExit::Exception { vector, error: traps::take_debug_status() },
        traps::DOUBLE_FAULT | traps::MACHINE_CHECK => panic!("{} while a program ran", diagnosis::name(vector)),
        ..=traps::EXCEPTION_LAST => UserExit::Exception { vector, error: trap.error },
        _ => {
            irq::handle(vector);
            return (vector != irq::VECTOR_KICK).then_some(UserExit::Interrupt);
        }
    })
}

/// Gives the core to a thread. Returns [`SYSCALL`], or [`TRAP`] + vector.
///
/// # Safety
/// A page table is active that has the kernel's half. `thread.regs.rip` is in the program's half. Interrupts are off.
#[unsafe(naked)]
pub(super) unsafe extern "sysv64" fn enter_user(thread: *mut UserThread) -> u64 {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov gs:[{kernel_stack}], rsp",
        "mov gs:[{thread}], rdi",
        "mov rcx, [rdi + {rip}]",
        "mov r11, [rdi + {rflags}]",
        "and r11d, {user_flags}",
        "or r11d, {fixed_flags}",
        "mov rax, [rdi + {rax}]",
        "mov rbx, [rdi + {rbx}]",
        "mov rdx, [rdi + {rdx}]",
        "mov rsi, [rdi + {rsi}]",
        "mov rbp, [rdi + {rbp}]",
        "mov r8, [rdi + {r8}]",
        "mov r9, [rdi + {r9}]",
        "mov r10, [rdi + {r10}]",
        "mov r12, [rdi + {r12}]",
        "mov r13, [rdi + {r13}]",
        "mov r14, [rdi + {r14}]",
        "mov r15, [rdi + {r15}]",
        "cmp dword ptr [rdi + {restore_all}], 0",
        "jne 2f",
        // From here on the stack is the program's: nothing may be pushed, and nothing is, since interrupts are off and
        // what cannot be turned off has stacks of its own.
        "mov rsp, [rdi + {rsp}]",
        "mov rdi, [rdi + {rdi}]",
        "swapgs",
        "sysretq",
        "2:",
        "mov dword ptr [rdi + {restore_all}], 0",
        "push {user_data}",
        "push [rdi + {rsp}]",
        "push r11",
        "push {user_code}",
        "push rcx",
        "mov rcx, [rdi + {rcx}]",
        "mov r11, [rdi + {r11}]",
        "mov rdi, [rdi + {rdi}]",
        "swapgs",
        "iretq",
        kernel_stack = const offset_of!(Core, kernel_stack),
        thread = const offset_of!(Core, thread),
        user_flags = const USER_FLAGS,
        fixed_flags = const FIXED_FLAGS,
        restore_all = const RESTORE_ALL,
        user_data = const USER_DATA,
        user_code = const USER_CODE,
        rax = const REGS + offset_of!(Registers, rax),
        rbx = const REGS + offset_of!(Registers, rbx),
        rcx = const REGS + offset_of!(Registers, rcx),
        rdx = const REGS + offset_of!(Registers, rdx),
        rsi = const REGS + offset_of!(Registers, rsi),
        rdi = const REGS + offset_of!(Registers, rdi),
        rbp = const REGS + offset_of!(Registers, rbp),
        rsp = const REGS + offset_of!(Registers, rsp),
        r8 = const REGS + offset_of!(Registers, r8),
        r9 = const REGS + offset_of!(Registers, r9),
        r10 = const REGS + offset_of!(Registers, r10),
        r11 = const REGS + offset_of!(Registers, r11),
        r12 = const REGS + offset_of!(Registers, r12),
        r13 = const REGS + offset_of!(Registers, r13),
        r14 = const REGS + offset_of!(Registers, r14),
        r15 = const REGS + offset_of!(Registers, r15),
        rip = const REGS + offset_of!(Registers, rip),
        rflags = const REGS + offset_of!(Registers, rflags),
    )
}

/// Where the system-call instruction comes in: `rcx` is the program's `rip`, `r11` its flags.
///
/// # Safety
/// Only the processor may come here.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn syscall_entry() {
    naked_asm!(
        "swapgs",
        "mov gs:[{user_stack}], rsp",
        "mov rsp, gs:[{thread}]",
        "mov [rsp + {rax}], rax",
        "mov [rsp + {rbx}], rbx",
        "mov [rsp + {rdx}], rdx",
        "mov [rsp + {rsi}], rsi",
        "mov [rsp + {rdi}], rdi",
        "mov [rsp + {rbp}], rbp",
        "mov [rsp + {r8}], r8",
        "mov [rsp + {r9}], r9",
        "mov [rsp + {r10}], r10",
        "mov [rsp + {r12}], r12",
        "mov [rsp + {r13}], r13",
        "mov [rsp + {r14}], r14",
        "mov [rsp + {r15}], r15",
        "mov [rsp + {rip}], rcx",
        "mov [rsp + {rflags}], r11",
        // A thread that steps through its instructions goes back by `iretq`: `sysretq` with the trap flag on is itself
        // a step, before the next instruction (SDM volume 2, SYSRET), and Linux has none there.
        "and r11d, {trap_flag}",
        "mov [rsp + {restore_all}], r11d",
        "mov rax, gs:[{user_stack}]",
        "mov [rsp + {rsp}], rax",
        "mov rsp, gs:[{kernel_stack}]",
        "xor eax, eax",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        user_stack = const offset_of!(Core, user_stack),
        kernel_stack = const offset_of!(Core, kernel_stack),
        thread = const offset_of!(Core, thread),
        trap_flag = const TRAP_FLAG,
        restore_all = const RESTORE_ALL,
        rax = const REGS + offset_of!(Registers, rax),
        rbx = const REGS + offset_of!(Registers, rbx),
        rdx = const REGS + offset_of!(Registers, rdx),
        rsi = const REGS + offset_of!(Registers, rsi),
        rdi = const REGS + offset_of!(Registers, rdi),
        rbp = const REGS + offset_of!(Registers, rbp),
        rsp = const REGS + offset_of!(Registers, rsp),
        r8 = const REGS + offset_of!(Registers, r8),
        r9 = const REGS + offset_of!(Registers, r9),
        r10 = const REGS + offset_of!(Registers, r10),
        r12 = const REGS + offset_of!(Registers, r12),
        r13 = const REGS + offset_of!(Registers, r13),
        r14 = const REGS + offset_of!(Registers, r14),
        r15 = const REGS + offset_of!(Registers, r15),
        rip = const REGS + offset_of!(Registers, rip),
        rflags = const REGS + offset_of!(Registers, rflags),
    )
}

/// Where the stubs of the interrupt table go when a program was interrupted. On the stack: vector, error code and the
/// processor's frame (`rip`, `cs`, `rflags`, `rsp`, `ss`).
///
/// # Safety
/// Only the stubs may come here.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn leave_by_trap() {
    naked_asm!(
        "swapgs",
        "push rax",
        "mov rax, gs:[{thread}]",
        "mov [rax + {rbx}], rbx",
        "mov [rax + {rcx}], rcx",
        "mov [rax + {rdx}], rdx",
        "mov [rax + {rsi}], rsi",
        "mov [rax + {rdi}], rdi",
        "mov [rax + {rbp}], rbp",
        "mov [rax + {r8}], r8",
        "mov [rax + {r9}], r9",
        "mov [rax + {r10}], r10",
        "mov [rax + {r11}], r11",
        "mov [rax + {r12}], r12",
        "mov [rax + {r13}], r13",
        "mov [rax + {r14}], r14",
        "mov [rax + {r15}], r15",
        "pop [rax + {rax}]",
        "pop [rax + {vector}]",
        "pop [rax + {error}]",
        "pop [rax + {rip}]",
        "pop rbx",
        "pop [rax + {rflags}]",
        "pop [rax + {rsp}]",
        "mov dword ptr [rax + {restore_all}], 1",
        "mov rsp, gs:[{kernel_stack}]",
        // A gate leaves DF and AC as the program had them.
        "push {kernel_flags}",
        "popfq",
        "mov rax, [rax + {vector}]",
        "or eax, {trap}",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        kernel_stack = const offset_of!(Core, kernel_stack),
        thread = const offset_of!(Core, thread),
        kernel_flags = const KERNEL_FLAGS,
        trap = const TRAP,
        vector = const TRAP_AT + offset_of!(Trap, vector),
        error = const TRAP_AT + offset_of!(Trap, error),
        restore_all = const RESTORE_ALL,
        rax = const REGS + offset_of!(Registers, rax),
        rbx = const REGS + offset_of!(Registers, rbx),
        rcx = const REGS + offset_of!(Registers, rcx),
        rdx = const REGS + offset_of!(Registers, rdx),
        rsi = const REGS + offset_of!(Registers, rsi),
        rdi = const REGS + offset_of!(Registers, rdi),
        rbp = const REGS + offset_of!(Registers, rbp),
        rsp = const REGS + offset_of!(Registers, rsp),
        r8 = const REGS + offset_of!(Registers, r8),
        r9 = const REGS + offset_of!(Registers, r9),
        r10 = const REGS + offset_of!(Registers, r10),
        r11 = const REGS + offset_of!(Registers, r11),
        r12 = const REGS + offset_of!(Registers, r12),
        r13 = const REGS + offset_of!(Registers, r13),
        r14 = const REGS + offset_of!(Registers, r14),
        r15 = const REGS + offset_of!(Registers, r15),
        rip = const REGS + offset_of!(Registers, rip),
        rflags = const REGS + offset_of!(Registers, rflags),
    )
}

/// Where the registers are in a thread.
const REGS: usize = offset_of!(UserThread, regs);

/// Where [`Trap`] is in a thread.
const TRAP_AT: usize = offset_of!(UserThread, trap);

/// Where [`Trap::restore_all`] is in a thread.
const RESTORE_ALL: usize = TRAP_AT + offset_of!(Trap, restore_all);
