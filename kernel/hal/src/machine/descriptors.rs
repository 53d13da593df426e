//! Segments, the task state, and the stacks for what cannot use the one in place.

use alloc::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use core::arch::asm;
use core::cell::UnsafeCell;
use core::ptr::NonNull;

use x86_64::structures::DescriptorTablePointer;
use x86_64::structures::gdt::SegmentSelector;
use x86_64::structures::tss::TaskStateSegment;
use x86_64::{PrivilegeLevel, VirtAddr};

use crate::scrub::wipe;

/// Selector of the kernel's code segment.
pub(super) const KERNEL_CODE: u16 = 0x08;

/// Selector of the kernel's data segment.
pub(super) const KERNEL_DATA: u16 = 0x10;

/// Bytes of each extra stack.
const STACK_BYTES: usize = 16 * 1024;

/// What the way in puts on the trap stack, bytes: the processor's frame, error code, vector and one register.
const TRAP_BYTES: usize = size_of::<[u64; 8]>();

/// How far below a stack's top the processor puts the flags of what it interrupts, which are never all 0, bytes.
const FLAGS_BELOW_TOP: u64 = size_of::<[u64; 3]>() as u64;

/// Which of the extra stacks an exception gets: numbers of the processor's interrupt stack table, counted from 1 in
/// gates.
pub(super) mod ist {
    /// Double fault: the kernel stack may be used up.
    pub(in super::super) const DOUBLE_FAULT: u8 = 1;
    /// Non-maskable interrupt: comes at any instruction, also while the stack is a program's.
    pub(in super::super) const NMI: u8 = 2;
    /// Machine check: as above.
    pub(in super::super) const MACHINE_CHECK: u8 = 3;
    /// Debug exception: a load of the stack segment holds it back over the next instruction, which may be `syscall`, so
    /// that it can come before the kernel has its stack (SDM volume 3, 6.8.3).
    pub(in super::super) const DEBUG: u8 = 4;
}

/// One extra stack.
#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; STACK_BYTES]>);

/// The extra stacks of a core.
pub(super) struct Stacks {
    /// Where gates put their frame when a program is interrupted. It is empty again a few instructions later.
    trap: Stack,
    /// See [`ist`].
    ist: [Stack; 4],
}

// SAFETY: only the processor whose task state names them uses the stacks.
unsafe impl Sync for Stacks {}

impl Stacks {
    /// Unused stacks.
    pub(super) const fn new() -> Self {
        Self { trap: Stack::new(), ist: [const { Stack::new() }; 4] }
    }

    /// Unused stacks, on the heap, for good.
    pub(super) fn take() -> &'static Self {
        let layout = Layout::new::<Self>();
        // SAFETY: the size is not 0.
        let Some(stacks) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        // SAFETY: just allocated with this layout, never given back, and all zeros are unused stacks.
        unsafe { stacks.cast::<Self>().as_ref() }
    }

    /// Zeroes what was put on the stacks. To be called by their core, on its kernel stack.
    pub(super) fn scrub(&'static self) {
        self.trap.scrub(TRAP_BYTES);
        for stack in &self.ist {
            if stack.was_used() {
                stack.scrub(STACK_BYTES);
            }
        }
    }
}

impl Stack {
    const fn new() -> Self {
        Self(UnsafeCell::new([0; STACK_BYTES]))
    }

    /// Address behind the stack, where it starts.
    fn top(&'static self) -> VirtAddr {
        VirtAddr::from_ptr(self.0.get()) + STACK_BYTES as u64
    }

    /// Whether the processor has put a frame there since it was last wiped.
    fn was_used(&'static self) -> bool {
        let flags = (self.top() - FLAGS_BELOW_TOP).as_ptr::<u64>();
        // SAFETY: inside the stack, which is aligned; its core is not on it, and nobody else writes there.
        unsafe { flags.read_volatile() != 0 }
    }

    /// Zeroes the `bytes` that are used first, at most all of them.
    fn scrub(&'static self, bytes: usize) {
        let bytes = bytes.min(STACK_BYTES);
        // SAFETY: inside the stack; its core is not on it, and nobody else uses it.
        unsafe { wipe((self.top() - bytes as u64).as_mut_ptr(), bytes) };
    }
}

/// Descriptor table of a core, and its task state.
#[repr(C, align(16))]
pub(super) struct Gdt {
    entries: [u64; 7],
    tss: TaskStateSegment,
}

impl Gdt {
    /// A table whose task state is not set. The order of the program's segments is `sysretq`'s. All are marked as
    /// accessed, so that the processor need not write to them; programs have no 32-bit code segment, and so no way out
    /// of 64-bit mode. (AMD's `sysretq` leaves the stack segment unusable if it was null, as it is after an interrupt;
    /// in 64-bit mode that has no meaning.)
    pub(super) const fn new() -> Self {
        let kernel_code = 0x00af_9b00_0000_ffff;
        let kernel_data = 0x00cf_9300_0000_ffff;
        let user_data = 0x00cf_f300_0000_ffff;
        let user_code = 0x00af_fb00_0000_ffff;
        Self { entries: [0, kernel_code, kernel_data, user_data, user_code, 0, 0], tss: TaskStateSegment::new() }
    }

    /// Makes the table and the stacks the processor's.
    pub(super) fn load(&'static mut self, stacks: &'static Stacks) {
        self.tss.privilege_stack_table[0] = stacks.trap.top();
        for (entry, stack) in stacks.ist.iter().enumerate() {
            self.tss.interrupt_stack_table[entry] = stack.top();
        }
        // No map of I/O ports, as it would begin behind the segment's end: a program may use none.
        self.tss.iomap_base = size_of::<TaskStateSegment>() as u16;
        let [low, high] = task_state_descriptor(&raw const self.tss);
        self.entries[5] = low;
        self.entries[6] = high;
        let pointer = DescriptorTablePointer {
            limit: size_of_val(&self.entries) as u16 - 1,
            base: VirtAddr::from_ptr(self.entries.as_ptr()),
        };
        // SAFETY: the table lives for good and has a code, a data and a task-state segment where the selectors say.
        // Null is allowed in the data segments other than the stack's.
        unsafe {
            x86_64::instructions::tables::lgdt(&pointer);
            asm!(
                "push {code}", "lea {scratch}, [rip + 2f]", "push {scratch}", "retfq", "2:",
                "mov ss, {data:e}", "mov ds, {null:e}", "mov es, {null:e}", "mov fs, {null:e}", "mov gs, {null:e}",
                code = const KERNEL_CODE, scratch = out(reg) _, data = in(reg) u32::from(KERNEL_DATA), null = in(reg) 0,
                options(preserves_flags),
            );
            asm!("lldt {0:x}", in(reg) 0u16, options(nostack, preserves_flags));
            x86_64::instructions::tables::load_tss(SegmentSelector::new(5, PrivilegeLevel::Ring0));
        }
    }
}

/// The two words that describe an available 64-bit task state.
fn task_state_descriptor(tss: *const TaskStateSegment) -> [u64; 2] {
    let base = tss.addr() as u64;
    let limit = size_of::<TaskStateSegment>() as u64 - 1;
    let low = limit | (base & 0x00ff_ffff) << 16 | 0x89 << 40 | (base >> 24 & 0xff) << 56;
    [low, base >> 32]
}
