//! What the gates lead to: one stub per vector, which notes the vector and goes on to the program's or the kernel's
//! side.

use core::arch::naked_asm;

use super::kernel_trap;
use crate::user::leave_by_trap;

/// Distance of one stub to the next.
pub(super) const STUB_BYTES: u64 = 16;

/// Address of the `gs` base register.
const MSR_GS_BASE: u32 = 0xc000_0101;

/// The stubs, one after the other. All leave vector and error code (0 where the processor has none) on the stack.
///
/// # Safety
/// Only gates may lead here, each to the stub of its vector.
#[unsafe(naked)]
pub(super) unsafe extern "sysv64" fn stubs() {
    naked_asm!(
        ".balign {stub_bytes}",
        ".set .Lvector, 0",
        ".rept 256",
        ".balign {stub_bytes}",
        // The vectors for which the processor pushes an error code.
        ".if (.Lvector != 8) && (.Lvector != 10) && (.Lvector != 11) && (.Lvector != 12) && (.Lvector != 13) && \
             (.Lvector != 14) && (.Lvector != 17) && (.Lvector != 21) && (.Lvector != 29) && (.Lvector != 30)",
        "push 0",
        ".endif",
        // push imm32
        ".byte 0x68",
        ".long .Lvector",
        "jmp 2f",
        ".set .Lvector, .Lvector + 1",
        ".endr",
        "2:",
        "test byte ptr [rsp + 24], 3",
        "jz {from_kernel}",
        "jmp {from_program}",
        stub_bytes = const STUB_BYTES,
        from_program = sym leave_by_trap,
        from_kernel = sym from_kernel,
    )
}

/// The kernel was interrupted: keeps all registers and calls [`kernel_trap`]. An interrupt that cannot be turned off
/// may have come when `gs` was still, or already, the program's, so its base decides: the program's is in the lower
/// half.
///
/// # Safety
/// Only the stubs may come here.
#[unsafe(naked)]
unsafe extern "sysv64" fn from_kernel() {
    naked_asm!(
        "push rax",
        "push rbx",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push rbp",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "cld",
        "mov ecx, {gs_base}",
        "rdmsr",
        "xor ebx, ebx",
        "test edx, edx",
        "js 2f",
        "mov ebx, 1",
        "swapgs",
        "2:",
        "mov rdi, rsp",
        "mov r12, rsp",
        "and rsp, -16",
        "call {kernel_trap}",
        "mov rsp, r12",
        "test ebx, ebx",
        "jz 3f",
        "swapgs",
        "3:",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rbp",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rbx",
        "pop rax",
        "add rsp, 16",
        "iretq",
        gs_base = const MSR_GS_BASE,
        kernel_trap = sym kernel_trap,
    )
}
