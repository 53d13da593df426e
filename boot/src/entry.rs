//! The first instructions: from the state PVH promises (32-bit protected mode, paging off, `ebx` = start info; Xen's
//! `docs/misc/pvh.pandoc`) to long mode with the first 4 GiB mapped one to one, and into [`crate::load`].

use core::arch::global_asm;

/// Loader's stack, bytes. The deepest path is reading the kernel's ELF headers.
const STACK_BYTES: usize = 64 * 1024;

global_asm!(
    // The note by which QEMU recognises the image and finds the entry point: XEN_ELFNOTE_PHYS32_ENTRY.
    ".pushsection .note.pvh, \"a\", @note",
    ".balign 4",
    ".long 4",          // length of the name
    ".long 8",          // length of the value
    ".long 18",         // type
    ".asciz \"Xen\"",
    ".quad pvh_entry",
    ".popsection",

    ".pushsection .text.pvh, \"ax\", @progbits",
    ".code32",
    ".global pvh_entry",
    "pvh_entry:",
    "cli",
    "cld",
    "mov esp, offset {stack} + {stack_bytes}",

    // Page tables: one PML4 entry, four page directories with 2 MiB pages.
    "mov eax, offset {directory_pointers} + 3",
    "mov [{top}], eax",
    "mov eax, offset {directories} + 3",
    "xor ecx, ecx",
    "2:",
    "mov [{directory_pointers} + ecx * 8], eax",
    "add eax, 4096",
    "inc ecx",
    "cmp ecx, 4",
    "jb 2b",
    "mov eax, 0x83", // present, writable, 2 MiB
    "xor ecx, ecx",
    "3:",
    "mov [{directories} + ecx * 8], eax",
    "add eax, 0x200000",
    "inc ecx",
    "cmp ecx, 2048",
    "jb 3b",

    "mov eax, offset {top}",
    "mov cr3, eax",
    "mov eax, cr4",
    "or eax, 1 << 5", // PAE
    "mov cr4, eax",
    "mov ecx, 0xc0000080", // EFER
    "rdmsr",
    "or eax, (1 << 8) | (1 << 11)", // LME, NXE
    "wrmsr",
    "mov eax, cr0",
    "or eax, (1 << 31) | (1 << 16)", // PG, WP
    "mov cr0, eax",
    "lgdt [{gdt_pointer}]",
    "push 0x08",
    "mov eax, offset pvh_long_mode",
    "push eax",
    "retf",

    ".code64",
    "pvh_long_mode:",
    "mov ax, 0x10",
    "mov ds, ax",
    "mov es, ax",
    "mov ss, ax",
    "xor eax, eax",
    "mov fs, ax",
    "mov gs, ax",
    "mov rsp, offset {stack} + {stack_bytes}",
    "xor ebp, ebp",
    "mov edi, ebx",
    "call {load}",
    "ud2",
    ".popsection",
    stack = sym STACK,
    stack_bytes = const STACK_BYTES,
    top = sym TOP,
    directory_pointers = sym DIRECTORY_POINTERS,
    directories = sym DIRECTORIES,
    gdt_pointer = sym GDT_POINTER,
    load = sym crate::load,
);

/// Memory that only the code above and the processor touch.
#[repr(C, align(4096))]
struct Raw<const BYTES: usize>(core::cell::UnsafeCell<[u8; BYTES]>);

// SAFETY: no Rust code ever reads or writes these bytes; they are the processor's.
unsafe impl<const BYTES: usize> Sync for Raw<BYTES> {}

impl<const BYTES: usize> Raw<BYTES> {
    const fn zeroed() -> Self {
        Self(core::cell::UnsafeCell::new([0; BYTES]))
    }
}

static STACK: Raw<STACK_BYTES> = Raw::zeroed();
static TOP: Raw<4096> = Raw::zeroed();
static DIRECTORY_POINTERS: Raw<4096> = Raw::zeroed();
static DIRECTORIES: Raw<{ 4 * 4096 }> = Raw::zeroed();

/// Null, 64-bit code, data.
static GDT: [u64; 3] = [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];

/// What `lgdt` reads.
#[repr(C, packed)]
struct GdtPointer {
    limit: u16,
    base: &'static [u64; 3],
}

static GDT_POINTER: GdtPointer = GdtPointer { limit: size_of::<[u64; 3]>() as u16 - 1, base: &GDT };
