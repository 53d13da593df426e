//! From 32-bit mode without paging, as PVH has it, to Rust in 64-bit mode.

use core::arch::global_asm;

use crate::console;
use crate::load::load;

/// Bytes of the loader's stack.
const STACK_BYTES: usize = 64 * 1024;

// `ebx` holds the address of the start information. The first 4 GiB are mapped to themselves in pages of 2 MiB.
global_asm!(
    r#"
    .section .note.pvh, "a", @note
    .balign 4
    .long 4             // length of the name
    .long 4             // length of the value
    .long 18            // XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long pvh_entry

    .section .text.pvh_entry, "ax"
    .code32
    .global pvh_entry
pvh_entry:
    cli
    cld
    mov esp, offset early_stack_end
    mov esi, ebx

    mov eax, 0x80000000
    cpuid
    cmp eax, 0x80000001
    jb 4f
    mov eax, 0x80000001
    cpuid
    bt edx, 29
    jnc 4f

    mov edi, offset early_level_2
    mov eax, 0x83               // present, writable, large
    mov ecx, 4 * 512
1:  mov [edi], eax
    mov dword ptr [edi + 4], 0
    add eax, 0x200000
    add edi, 8
    loop 1b

    mov edi, offset early_level_3
    mov eax, offset early_level_2
    or eax, 3
    mov ecx, 4
2:  mov [edi], eax
    add eax, 4096
    add edi, 8
    loop 2b

    mov eax, offset early_level_3
    or eax, 3
    mov edi, offset early_level_4
    mov [edi], eax
    mov cr3, edi

    mov eax, 1 << 5             // PAE, and nothing that somebody may have left on
    mov cr4, eax
    mov ecx, 0xc0000080         // EFER
    rdmsr
    or eax, 1 << 8              // long mode
    wrmsr
    mov eax, cr0
    and eax, 0x9fffffff         // the caches on: a reset turns them off
    or eax, 0x80010001          // paging, write protection, protected mode
    mov cr0, eax

    mov eax, offset early_gdt_pointer
    lgdt [eax]
    push 8
    mov eax, offset long_mode
    push eax
    retf

    // No 64-bit mode: say so.
4:  mov esi, offset no_long_mode
    mov ecx, offset no_long_mode_end
    sub ecx, esi
    mov dx, 0x3f8
    rep outsb
    mov dx, 0xf4
    mov eax, 3
    out dx, eax
5:  hlt
    jmp 5b

    .code64
long_mode:
    mov eax, 16
    mov ss, eax
    xor eax, eax
    mov ds, eax
    mov es, eax
    mov fs, eax
    mov gs, eax
    mov rsp, offset early_stack_end
    xor ebp, ebp
    mov edi, esi
    call {start}
    ud2

    .section .rodata.early, "a"
no_long_mode:
    .ascii "coppice-boot: the processor has no 64-bit mode: give the node another (coppice up --cpu MODEL)\n"
no_long_mode_end:
    .balign 8
early_gdt:
    .quad 0
    .quad 0x00af9b000000ffff
    .quad 0x00cf93000000ffff
early_gdt_pointer:
    .word 23
    .long early_gdt

    .section .bss.early, "aw", @nobits
    .balign 4096
early_level_4: .skip 4096
early_level_3: .skip 4096
early_level_2: .skip 4 * 4096
early_stack: .skip {stack_bytes}
early_stack_end:
    .text
    "#,
    start = sym start,
    stack_bytes = const STACK_BYTES,
);

/// Where the assembler part leads.
extern "sysv64" fn start(start_info: u32) -> ! {
    match load(start_info) {
        Ok(ready) => ready.go(),
        Err(error) => console::fail(&error),
    }
}
