/* Fills every kind of memory with a pattern, says "filled", waits until its standard input ends, and ends as it was
   told. Arguments: the pattern's seed, how to end (exit, fault, spin), a file to map. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pattern.h"

#define PAGE 4096UL
#define ALIGNED __attribute__((aligned(PAGE)))

static unsigned char data[3 * PAGE] ALIGNED = {1};
static unsigned char zeroed[16 * PAGE] ALIGNED;
static unsigned char sealed[PAGE] ALIGNED = {1};
static __thread unsigned char of_thread[2 * PAGE];

/* A page of code that is never executed. */
__attribute__((noipa, aligned(PAGE), section(".text.secret"))) static void code(void) {
    __asm__ volatile(".skip 8000, 0x90");
}

static unsigned char *map(int fd, unsigned long bytes) {
    int flags = MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0);
    unsigned char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (at == MAP_FAILED) exit(90);
    return at;
}

static void change(void *at, unsigned long bytes, int rights) {
    if (mprotect(at, bytes, rights) != 0) exit(91);
}

/* Eight words of it in registers that calls keep and in vector registers, all the time until the end. */
static void wait_and_end(const char *how, unsigned long seed) {
    unsigned long words[4] ALIGNED = {pattern_word(seed, 0), pattern_word(seed, 1), pattern_word(seed, 2),
                                      pattern_word(seed, 3)};
    char byte;
    if (write(1, "filled\n", 7) != 7) exit(92);
    if (strcmp(how, "spin") == 0) {
        __asm__ volatile("movdqa (%0), %%xmm3\n movdqa 16(%0), %%xmm9\n movq (%0), %%r12\n movq 8(%0), %%r13\n"
                         "0: pause\n jmp 0b" ::"r"(words) : "xmm3", "xmm9", "r12", "r13", "memory");
    }
    while (read(0, &byte, 1) > 0) {}
    if (strcmp(how, "fault") == 0) {
        __asm__ volatile("movdqa (%0), %%xmm3\n movdqa 16(%0), %%xmm9\n movq (%0), %%r12\n movq 8(%0), %%r13\n"
                         "movq $0, 0" ::"r"(words) : "xmm3", "xmm9", "r12", "r13", "memory");
    }
    __asm__ volatile("movdqa (%0), %%xmm3\n movdqa 16(%0), %%xmm9\n movq (%0), %%r12\n movq 8(%0), %%r13\n"
                     "mov $231, %%eax\n xor %%edi, %%edi\n syscall" ::"r"(words)
                     : "xmm3", "xmm9", "r12", "r13", "rax", "rdi", "rcx", "r11", "memory");
}

int main(int argc, char **argv) {
    unsigned long seed = strtoul(argv[1], NULL, 10);
    int fd = open(argc > 3 ? argv[3] : "/mapped", O_RDWR);
    if (fd < 0) return 93;
    pattern_fill(data, sizeof data, seed);
    pattern_fill(zeroed, sizeof zeroed, seed);
    pattern_fill(of_thread, sizeof of_thread, seed);
    void *heap = malloc(100000), *large = malloc(1 << 20);
    if (!heap || !large) return 94;
    pattern_fill(heap, 100000, seed);
    pattern_fill(large, 1 << 20, seed);

    unsigned char *file = map(fd, 16 * PAGE), *hidden = map(-1, 8 * PAGE), *executed = map(-1, 4 * PAGE);
    unsigned char *gone = map(-1, 8 * PAGE), *forgotten = map(-1, 8 * PAGE);
    pattern_fill(file, 16 * PAGE, seed);
    pattern_fill(hidden, 8 * PAGE, seed);
    change(hidden, 4 * PAGE, PROT_NONE);
    change(hidden + 4 * PAGE, 4 * PAGE, PROT_READ);
    pattern_fill(executed, 4 * PAGE, seed);
    change(executed, 4 * PAGE, PROT_READ | PROT_EXEC);
    pattern_fill(gone, 8 * PAGE, seed);
    munmap(gone, 8 * PAGE);
    pattern_fill(forgotten, 8 * PAGE, seed);
    madvise(forgotten, 8 * PAGE, MADV_DONTNEED);
    pattern_fill(sealed, sizeof sealed, seed);
    change(sealed, sizeof sealed, PROT_READ);
    change((void *)code, PAGE, PROT_READ | PROT_WRITE);
    pattern_fill((void *)code, PAGE, seed);
    change((void *)code, PAGE, PROT_READ | PROT_EXEC);

    unsigned char stack[40 * PAGE] ALIGNED;
    pattern_fill(stack, sizeof stack, seed);
    wait_and_end(argv[2], seed);
    return stack[0];
}
