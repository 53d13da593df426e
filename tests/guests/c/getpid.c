/* Measures system calls in units of the time-stamp counter; under `-icount shift=0` that is instructions.
   Prints `NAME COUNT-PER-CALL` lines. Also serves as the init of another kernel that is measured the same way: as
   process 1 it ends the machine. */
#include <fcntl.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <unistd.h>
#include <x86intrin.h>

static inline long call0(long number) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
    return result;
}

int main(int argc, char **argv) {
    uint64_t entered = __rdtsc();
    int count = argc > 1 ? atoi(argv[1]) : 100000;
    call0(SYS_getpid);
    uint64_t start = __rdtsc();
    for (int i = 0; i < count; i++) __asm__ volatile("" ::: "memory");
    uint64_t loop = __rdtsc() - start;
    start = __rdtsc();
    for (int i = 0; i < count; i++) call0(SYS_getpid);
    uint64_t calls = __rdtsc() - start;
    printf("getpid %.1f\n", (double)(calls - loop) / count);

    int pages = 1000;
    volatile char *memory = mmap(NULL, (size_t)pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    start = __rdtsc();
    for (int i = 0; i < pages; i++) memory[(size_t)i * 4096] = 1;
    printf("zero-fill-fault %.1f\n", (double)(__rdtsc() - start) / pages);
    printf("counter-at-main %.0f\n", (double)entered);
    fflush(stdout);
    if (getpid() == 1) reboot(RB_AUTOBOOT);
    return 0;
}
