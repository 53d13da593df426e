//! Wiping the kernel's own memory on a node; see [`crate::scrub`].

use core::arch::asm;

use super::core_state::Core;
use super::heap;
use crate::scrub::wipe_instructions;

/// Wipes what programs that are gone left in the kernel's memory: in freed blocks of the heap, in what is kept of the
/// core's last thread, and in the unused part of the core's stacks. Those who call this are on the stack and are not
/// wiped, so they should be few and have handled nothing of a program.
pub fn kernel() {
    let core = Core::current();
    core.loaded.forget();
    core.scrub_entry();
    heap::wash();
    stack(core.stack_bottom.get());
}

/// Zeroes the kernel stack from `bottom` up to where it is in use.
#[inline(never)]
fn stack(bottom: u64) {
    if bottom == 0 {
        return;
    }
    // SAFETY: the memory between the stack's lower end and the stack pointer is nobody's: interrupts are off, and the
    // kernel is compiled without anything below the stack pointer. Nothing is pushed meanwhile.
    unsafe {
        asm!(
            wipe_instructions!("mov {bytes}, rsp\n sub {bytes}, {start}"),
            start = inout(reg) bottom => _, bytes = out(reg) _, zero = in(reg) 0_u64,
            options(nostack),
        );
    }
}
