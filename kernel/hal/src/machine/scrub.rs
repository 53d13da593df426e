//! Wiping the kernel's own memory on a node; see [`crate::scrub`].

use core::arch::asm;

use super::core_state::Core;
use crate::scrub::wipe_instructions;

/// Wipes what programs that are gone left in the core that runs: in its registers, in what is kept of its last thread,
/// and in the unused part of its stacks. Those who call this are on the stack and are not wiped, so they should be few
/// and have handled nothing of a program. Gives blocks of the heap back, so it comes before [`heap`].
pub fn core() {
    let core = Core::current();
    core.loaded.forget();
    core.scrub_entry();
    stack(core.stack_bottom.get());
}

/// Wipes what programs that are gone left in blocks of the heap that were freed.
pub fn heap() {
    super::heap::wash();
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
