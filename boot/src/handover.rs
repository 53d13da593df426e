//! The jump into the kernel.

use core::arch::naked_asm;

use x86_64::VirtAddr;
use x86_64::structures::DescriptorTablePointer;
use x86_64::structures::paging::PageTableFlags;

use crate::error::Error;
use crate::memory::{FRAME_BYTES, Memory, Range};
use crate::tables::{DATA, Tables};

/// Descriptors the kernel starts with: null, code, data. It makes its own soon.
const DESCRIPTORS: [u64; 3] = [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];

/// Everything the jump needs.
pub(crate) struct Ready {
    root: u64,
    descriptors: u64,
    entry: u64,
    stack: u64,
    boot_info: u64,
}

impl Ready {
    /// Maps what both sides of the jump need: its code, and descriptors in a frame that stays.
    pub(crate) fn new(
        tables: &mut Tables,
        memory: &mut Memory,
        entry: u64,
        stack: u64,
        boot_info: u64,
    ) -> Result<Self, Error> {
        let code = Range::new(jump as *const () as u64, 64).frames_touched();
        tables.map_range(memory, code.start, code, PageTableFlags::PRESENT)?;
        let descriptors = memory.take(1)?.start;
        tables.map(memory, descriptors, descriptors, DATA)?;
        // SAFETY: the frame is our own.
        unsafe { (descriptors as *mut [u64; 3]).write(DESCRIPTORS) };
        Ok(Self { root: tables.root(), descriptors, entry, stack, boot_info })
    }

    /// Jumps.
    pub(crate) fn go(self) -> ! {
        let pointer = DescriptorTablePointer {
            limit: (size_of_val(&DESCRIPTORS) as u64 - 1).min(FRAME_BYTES) as u16,
            base: VirtAddr::new(self.descriptors),
        };
        // SAFETY: the descriptors are those in use, elsewhere. The tables map the code of `jump` where it is, the
        // kernel with its entry point, its stack and its boot information.
        unsafe {
            x86_64::instructions::tables::lgdt(&pointer);
            jump(self.root, self.stack, self.entry, self.boot_info)
        }
    }
}

/// Changes address space and stack, and enters the kernel as a function of one argument.
///
/// # Safety
/// `root` is the address of a top-level table that maps this function where it is; in it, `stack` is the end of a stack
/// and `entry` a function that never returns and takes the boot information.
#[unsafe(naked)]
unsafe extern "sysv64" fn jump(root: u64, stack: u64, entry: u64, boot_info: u64) -> ! {
    naked_asm!(
        "mov cr3, rdi",
        "mov rsp, rsi",
        "xor ebp, ebp",
        "mov rdi, rcx",
        // In place of a return address.
        "push 0",
        "jmp rdx",
    )
}
