//! Where another core begins: in the real mode of 1978, at a page below the first MiB. A few instructions there bring
//! it to 64 bits and to the kernel's addresses.
//!
//! The instructions are copied to that page, and the page behind them is told what to load. On their way they run at
//! physical addresses, so they need a page table of their own that has the kernel's half and the first 2 MiB as they
//! are.

use core::arch::global_asm;
use core::mem::offset_of;
use core::ptr;

use super::memory::{self, LOW_MEMORY_BYTES};
use crate::addr::PAGE_BYTES;
use crate::scrub::wipe;

/// Physical address of the instructions; behind them come three page tables. Nobody else uses it any more: memory below
/// the first MiB is not in the pool, and what the firmware has there lies higher up.
const AT: u64 = 0x8000;

/// Bytes from [`AT`] on that are used.
const BYTES: usize = 4 * PAGE_BYTES;

/// Where the page has what the instructions are to load.
const ORDERS_AT: u64 = 0xf00;

/// Entry flags: present, writable.
const TABLE: u64 = 3;

/// Entry flags: present, writable, and a page of 2 MiB.
const LARGE_PAGE: u64 = 0x83;

/// What is loaded, in order.
#[repr(C)]
#[derive(Clone, Copy)]
struct Orders {
    /// Physical address of the page table of the way.
    root: u64,
    /// Stack pointer.
    stack: u64,
    /// Where to go, by a jump: a function that takes `argument`.
    entry: u64,
    argument: u64,
    /// Descriptors: none, code, data.
    segments: [u64; 3],
    /// Bytes of the descriptors less one, and, from the third byte on, where they are.
    segments_at: u64,
}

global_asm!(
    ".pushsection .rodata.trampoline, \"a\"",
    ".balign 16",
    "coppice_trampoline:",
    ".code16",
    "cli",
    "cld",
    "mov ax, cs",
    "mov ds, ax",
    "lgdt [{orders} + 56]",
    // Physical address extension; nothing else of control register 4 yet.
    "mov eax, 0x20",
    "mov cr4, eax",
    "mov eax, dword ptr [{orders}]",
    "mov cr3, eax",
    // Long mode, and pages that forbid execution.
    "mov ecx, 0xc0000080",
    "rdmsr",
    "or eax, 0x900",
    "wrmsr",
    // Protection, write protection and paging on, the cache too.
    "mov eax, cr0",
    "and eax, 0x9fffffff",
    "or eax, 0x80010001",
    "mov cr0, eax",
    // A far jump: operand size 32 bits, to the code segment below.
    ".byte 0x66, 0xea",
    ".long {at} + (2f - coppice_trampoline)",
    ".word 0x08",
    ".code64",
    "2:",
    "mov eax, 0x10",
    "mov ss, eax",
    "mov ds, eax",
    "mov es, eax",
    "mov ebx, {at} + {orders}",
    "mov rsp, [rbx + 8]",
    "mov rax, [rbx + 16]",
    "mov rdi, [rbx + 24]",
    // There is nobody to return to.
    "xor ebp, ebp",
    "push 0",
    "jmp rax",
    "coppice_trampoline_end:",
    ".popsection",
    at = const AT,
    orders = const ORDERS_AT,
);

unsafe extern "C" {
    /// The first instruction.
    #[link_name = "coppice_trampoline"]
    static FIRST: u8;
    /// Behind the last.
    #[link_name = "coppice_trampoline_end"]
    static END: u8;
}

/// The way, built.
pub(super) struct Trampoline {
    page: *mut u8,
}

impl Trampoline {
    /// Builds the way to the kernel's table at `kernel_root`. `None` if it is out of reach of a core that begins.
    pub(super) fn build(kernel_root: u64) -> Option<Self> {
        const { assert!(AT + BYTES as u64 <= LOW_MEMORY_BYTES, "below the first MiB") };
        let page = memory::at(AT, BYTES)?;
        let kernel = memory::at(kernel_root, PAGE_BYTES)?.cast::<u64>();
        let table = |number: usize| page.wrapping_add(number * PAGE_BYTES).cast::<u64>();
        let physical = |number: u64| AT + number * PAGE_BYTES as u64;
        // SAFETY: the pages are memory that nobody else uses and no core has begun there; the instructions fit in front
        // of the orders; the kernel's table is only read.
        unsafe {
            wipe(page, BYTES);
            let (first, end) = (&raw const FIRST, &raw const END);
            ptr::copy_nonoverlapping(first, page, end.addr() - first.addr());
            ptr::copy_nonoverlapping(kernel.wrapping_add(256), table(1).wrapping_add(256), 256);
            table(1).write(physical(2) | TABLE);
            table(2).write(physical(3) | TABLE);
            table(3).write(LARGE_PAGE);
        }
        Some(Self { page })
    }

    /// The page's number, for who sends a core there.
    pub(super) fn page(&self) -> u8 {
        (AT / PAGE_BYTES as u64) as u8
    }

    /// Says where the next core is to go: to `entry`, with `argument`, on the stack that ends at `stack`.
    pub(super) fn lead<T>(&self, stack: u64, entry: extern "sysv64" fn(&'static T) -> !, argument: &'static T) {
        let orders = Orders {
            root: AT + PAGE_BYTES as u64,
            stack,
            entry: entry as usize as u64,
            argument: ptr::from_ref(argument).addr() as u64,
            segments: [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff],
            segments_at: (AT + ORDERS_AT + offset_of!(Orders, segments) as u64) << 16
                | (size_of::<[u64; 3]>() as u64 - 1),
        };
        // SAFETY: inside the page, behind the instructions; the last core is past this.
        unsafe { self.page.wrapping_add(ORDERS_AT as usize).cast::<Orders>().write_volatile(orders) };
    }
}

impl Drop for Trampoline {
    fn drop(&mut self) {
        // SAFETY: the pages are this value's; all cores that were sent here are past them, or were reset again.
        unsafe { wipe(self.page, BYTES) };
    }
}
