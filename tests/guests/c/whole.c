/* A program of 6 MiB that reads all of itself and prints a sum of what it read. */
#include <stdio.h>

#define PAGES (6UL << 8)

/* Each page starts with a number of its own and is filled with a byte of its own. */
__asm__(".section .rodata\n"
        ".balign 4096\n"
        ".globl table\n"
        "table:\n"
        ".set page, 0\n"
        ".rept 1536\n"
        ".quad page * 0x9e3779b9 + 1\n"
        ".fill 4088, 1, (page * 7) & 0xff\n"
        ".set page, page + 1\n"
        ".endr\n"
        ".previous\n");
extern const volatile unsigned long table[PAGES * 512];

int main(void) {
    unsigned long sum = 0;
    for (unsigned long i = 0; i < PAGES * 512; i++) sum = sum * 31 + table[i];
    printf("%lx\n", sum);
    return 0;
}
