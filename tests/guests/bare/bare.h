/* A program without a C library, so that it has exactly the pages that its linker script gives it. */
#include "../c/pattern.h"

/* In which page of the program a function or object lies. */
#define IN_PAGE(number) __attribute__((noipa, used, section(".page" #number)))

/* 32 bytes in a page of the program, by which it is found in a machine's memory. */
#define MARK(number, text) \
    __asm__(".pushsection .page" #number ",\"ax\"\n.balign 32\n.ascii \"" text "\"\n.popsection\n")

__asm__(".section .page0,\"ax\"\n"
        ".globl _start\n"
        "_start: mov %rsp, %rdi\n"
        "and $-16, %rsp\n"
        "call start\n"
        ".previous\n");

static inline __attribute__((always_inline)) long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

/* The number that the first argument is. */
static inline __attribute__((always_inline)) unsigned long seed_of(const long *stack) {
    unsigned long seed = 0;
    for (const char *digit = (const char *)stack[2]; *digit; digit++) seed = seed * 10 + (unsigned long)(*digit - '0');
    return seed;
}

/* Says that it is ready, waits until its standard input ends, and ends itself. With a second argument it waits for
   ever, and asks nobody for anything. */
static inline __attribute__((always_inline, noreturn)) void wait_and_exit(const long *stack, int status) {
    char word[8] = {'r', 'e', 'a', 'd', 'y', '\n'};
    call(1, 1, (long)word, 6);
    while (stack[0] > 2) __asm__ volatile("pause");
    while (call(0, 0, (long)word, 1) > 0) {}
    for (;;) call(231, status, 0, 0);
}
