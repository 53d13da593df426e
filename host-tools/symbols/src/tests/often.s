# Debug information that says of very many functions that they are in very many places, which are there once.
    .globl _start
    .type _start, @function
_start:
    jmp _start
    .size _start, . - _start
    .section .debug_abbrev
    .byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0    # a unit: low_pc, high_pc
    .byte 2, 0x2e, 0, 3, 8, 0x55, 0x17, 0, 0    # a function: name, ranges
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
    .rept FUNCTIONS
    .byte 2
    .asciz "by_debug_information"
    .long 0
    .endr
    .byte 0
end:
    .section .debug_ranges
    .rept RANGES
    .quad 0, 2
    .endr
    .quad 0, 0
