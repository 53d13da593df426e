/* Ends in the way its argument names. */
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    int only_rank = argc > 2 ? atoi(argv[2]) : -1;
    const char *rank = getenv("COPPICE_RANK");
    if (only_rank >= 0 && rank && atoi(rank) != only_rank) {
        puts("unharmed");
        return 0;
    }
    printf("about to: %s\n", how);
    fflush(stdout);
    volatile int zero = 0;
    if (!strcmp(how, "null")) *(volatile int *)NULL = 1;
    if (!strcmp(how, "null-read")) return *(volatile int *)NULL;
    if (!strcmp(how, "call-null")) ((void (*)(void))(uintptr_t)zero)();
    if (!strcmp(how, "kernel-read")) return *(volatile int *)0xffffffff80000000;
    if (!strcmp(how, "kernel-write")) *(volatile int *)0xffff800000000000 = 1;
    if (!strcmp(how, "kernel-jump")) ((void (*)(void))0xffffffff80100000)();
    if (!strcmp(how, "non-canonical")) return *(volatile int *)0x800000000000;
    if (!strcmp(how, "non-canonical-jump")) __asm__ volatile("mov $0x8000000000000000, %rax; jmp *%rax");
    if (!strcmp(how, "edge-syscall")) {
        /* A system call whose return address would be the first non-canonical one. */
        char *edge = mmap((void *)0x7fffffffe000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (edge == MAP_FAILED) return 99;
        memcpy(edge + 4094, "\x0f\x05", 2);
        mprotect(edge, 4096, PROT_READ | PROT_EXEC);
        __asm__ volatile("mov $39, %%eax; jmp *%0" : : "r"(edge + 4094) : "rax");
    }
    if (!strcmp(how, "read-only")) { *(volatile char *)"constant" = 1; }
    if (!strcmp(how, "execute-data")) { static char data[16] = {(char)0xc3}; ((void (*)(void))data)(); }
    if (!strcmp(how, "divide")) __asm__ volatile("xor %%edx, %%edx; mov $7, %%eax; divl %0" : : "m"(zero) : "eax", "edx");
    if (!strcmp(how, "illegal")) __asm__ volatile("ud2");
    if (!strcmp(how, "breakpoint")) __asm__ volatile("int3");
    if (!strcmp(how, "hlt")) __asm__ volatile("hlt");
    if (!strcmp(how, "cli")) __asm__ volatile("cli");
    if (!strcmp(how, "in")) __asm__ volatile("inb $0x60, %%al" : : : "al");
    if (!strcmp(how, "out")) __asm__ volatile("outb %%al, $0xf4" : : "a"(0));
    if (!strcmp(how, "wrmsr")) __asm__ volatile("wrmsr" : : "c"(0xc0000082), "a"(0), "d"(0));
    if (!strcmp(how, "cr3")) __asm__ volatile("mov %0, %%cr3" : : "r"(0UL));
    if (!strcmp(how, "lgdt")) __asm__ volatile("lgdt (%0)" : : "r"(&zero));
    if (!strcmp(how, "iretq")) __asm__ volatile("pushq $0; pushq $0; pushq $0; pushq $0; pushq $0; iretq");
    if (!strcmp(how, "int80")) __asm__ volatile("int $0x80" : : "a"(20));
    if (!strcmp(how, "int-vector")) __asm__ volatile("int $0x20");
    if (!strcmp(how, "double-fault-stack")) __asm__ volatile("mov $0, %rsp; push %rax");
    if (!strcmp(how, "trap-flag")) __asm__ volatile("pushfq; orq $0x100, (%rsp); popfq; nop");
    if (!strcmp(how, "alignment-check")) __asm__ volatile("pushfq; orq $0x40000, (%rsp); popfq; mov %rsp, %rax; mov 1(%rax), %ecx");
    if (!strcmp(how, "stack-overflow")) { volatile char *p = alloca(64); for (;;) { p -= 4096; *p = 1; } }
    if (!strcmp(how, "misaligned-stack")) {
        /* No fault at all: system calls do not care how the stack is aligned. */
        long result = 39;
        __asm__ volatile("sub $259, %%rsp; syscall; add $259, %%rsp" : "+a"(result) : : "rcx", "r11", "memory");
        return result > 0 ? 55 : 56;
    }
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "raise-term")) raise(SIGTERM);
    if (!strcmp(how, "sysenter")) __asm__ volatile("sysenter");
    if (!strcmp(how, "segment")) __asm__ volatile("mov %0, %%ds; mov %0, %%es" : : "r"(0x10));
    if (!strcmp(how, "far-jump")) __asm__ volatile("pushq $0x08; pushq $0; lretq");
    printf("still here\n");
    return 98;
}
