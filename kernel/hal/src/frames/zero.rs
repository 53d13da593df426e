//! Zeroing frames: the greater part of what a page of zeros costs.

use core::ptr;

use crate::addr::PAGE_BYTES;

/// Zeroes a frame, 16 bytes at a time: an emulated processor counts each round of `rep stosq` as an instruction, and
/// takes longer for it.
///
/// # Safety
/// `frame` is a whole frame, aligned as those are, that nobody else reads or writes meanwhile.
#[cfg(target_os = "none")]
pub(super) unsafe fn zero(frame: *mut u8) {
    const ROUND_BYTES: usize = 256;
    let mut kept = [0_u64; 2];
    let behind = frame.wrapping_add(PAGE_BYTES);
    // SAFETY: the caller's promise. All of the processor's state is as it was: the register may be a program's, which
    // lies in `kept` meanwhile. No interrupt uses it, and the start of the kernel has set the processor up for it.
    unsafe {
        core::arch::asm!(
            "movups [{kept}], xmm0",
            "pxor xmm0, xmm0",
            "2:",
            "movaps [{at}], xmm0",
            "movaps [{at} + 16], xmm0",
            "movaps [{at} + 32], xmm0",
            "movaps [{at} + 48], xmm0",
            "movaps [{at} + 64], xmm0",
            "movaps [{at} + 80], xmm0",
            "movaps [{at} + 96], xmm0",
            "movaps [{at} + 112], xmm0",
            "movaps [{at} + 128], xmm0",
            "movaps [{at} + 144], xmm0",
            "movaps [{at} + 160], xmm0",
            "movaps [{at} + 176], xmm0",
            "movaps [{at} + 192], xmm0",
            "movaps [{at} + 208], xmm0",
            "movaps [{at} + 224], xmm0",
            "movaps [{at} + 240], xmm0",
            "add {at}, {round}",
            "cmp {at}, {behind}",
            "jne 2b",
            "movups xmm0, [{kept}]",
            kept = in(reg) &raw mut kept,
            at = inout(reg) frame => _,
            behind = in(reg) behind,
            round = const ROUND_BYTES,
            options(nostack),
        );
    }
    // What is a program's is not to stay here.
    // SAFETY: these are the bytes of `kept`.
    unsafe { ptr::write_volatile(&raw mut kept, [0; 2]) };
}

/// Zeroes a frame.
///
/// # Safety
/// As on a node.
#[cfg(not(target_os = "none"))]
pub(super) unsafe fn zero(frame: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { ptr::write_bytes(frame, 0, PAGE_BYTES) };
}
