# Debug information that says that very many functions are inlined into each other.
    .globl _start
    .type _start, @function
_start:
    jmp _start
    .size _start, . - _start
    .section .debug_abbrev
    .byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0    # a unit: low_pc, high_pc
    .byte 2, 0x2e, 1, 0x11, 1, 0x12, 7, 3, 8, 0, 0    # a function: low_pc, high_pc, name
    .byte 3, 0x1d, 1, 0, 0    # one that is inlined
    .byte 0
    .section .debug_info
    .long end - begin
begin:
    .short 4
    .long 0
    .byte 8
    .byte 1
    .quad _start
    .quad 2
    .byte 2
    .quad _start
    .quad 2
    .asciz "by_debug_information"
    .fill DEPTH, 1, 3
    .fill DEPTH + 2, 1, 0
end:
