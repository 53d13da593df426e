//! Wiping what programs leave behind in the kernel's own memory.
//!
//! Frames of programs are zeroed by the pool ([`crate::frames`]). Bytes of programs also pass through the kernel, and
//! stay in what it used for that: in blocks of the heap, on its stacks, where registers are put away, in the buffers of
//! the network card ([`crate::nic::Nic::scrub`]). [`heap`] wipes the first of these, and [`core`] what belongs to the
//! core that runs.

#[cfg(target_os = "none")]
pub use crate::machine::scrub::{core, heap};

/// Zeroes `bytes`.
#[inline]
pub fn bytes(bytes: &mut [u8]) {
    // SAFETY: the slice is the caller's alone, and zeros are bytes.
    unsafe { wipe(bytes.as_mut_ptr(), bytes.len()) };
}

/// There is none of it on the host.
#[cfg(not(target_os = "none"))]
pub fn core() {}

/// There is none of it on the host.
#[cfg(not(target_os = "none"))]
pub fn heap() {}

/// The instructions that zero `bytes` bytes from `start` on; `zero` is 0. An emulated processor takes several times as
/// long for `rep stosq` as for stores in a row.
#[cfg(target_os = "none")]
macro_rules! wipe_instructions {
    ($first:literal) => {
        concat!(
            $first,
            "\n sub {bytes}, 128
            jb 3f
            2:
            mov [{start}], {zero}
            mov [{start} + 8], {zero}
            mov [{start} + 16], {zero}
            mov [{start} + 24], {zero}
            mov [{start} + 32], {zero}
            mov [{start} + 40], {zero}
            mov [{start} + 48], {zero}
            mov [{start} + 56], {zero}
            mov [{start} + 64], {zero}
            mov [{start} + 72], {zero}
            mov [{start} + 80], {zero}
            mov [{start} + 88], {zero}
            mov [{start} + 96], {zero}
            mov [{start} + 104], {zero}
            mov [{start} + 112], {zero}
            mov [{start} + 120], {zero}
            sub {start}, -128
            sub {bytes}, 128
            jae 2b
            3:
            add {bytes}, 120
            jnc 5f
            4:
            mov [{start}], {zero}
            add {start}, 8
            sub {bytes}, 8
            jae 4b
            5:
            add {bytes}, 8
            jz 7f
            6:
            mov byte ptr [{start}], 0
            inc {start}
            dec {bytes}
            jnz 6b
            7:"
        )
    };
}
#[cfg(target_os = "none")]
pub(crate) use wipe_instructions;

/// Zeroes memory.
///
/// # Safety
/// It is there, and the caller's to write.
#[cfg(target_os = "none")]
#[inline]
pub(crate) unsafe fn wipe(start: *mut u8, bytes: usize) {
    // SAFETY: writes zeros from `start` to `start + bytes`, which the caller allows.
    unsafe {
        ::core::arch::asm!(
            wipe_instructions!(""),
            start = inout(reg) start => _, bytes = inout(reg) bytes => _, zero = in(reg) 0_u64,
            options(nostack),
        );
    }
}

/// Zeroes memory.
///
/// # Safety
/// It is there, and the caller's to write.
#[cfg(not(target_os = "none"))]
pub(crate) unsafe fn wipe(start: *mut u8, bytes: usize) {
    // SAFETY: by the caller.
    unsafe { ::core::ptr::write_bytes(start, 0, bytes) };
}
