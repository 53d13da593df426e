/* Makes N random system calls with hostile arguments; prints how many it made. Numbers that end the process or block
   for ever by design are left out. The same seed makes the same calls. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t state;
static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Lies between pages that nobody may touch: a call that writes beyond it fails, and leaves our own data alone. */
#define SCRATCH_BYTES 65536
#define GUARD_BYTES 65536
static char *scratch;
static uint64_t saved[8];

static uint64_t argument(void) {
    switch (next() % 16) {
    case 0: return 0;
    case 1: return ~0UL;
    case 2: return ~0UL - next() % 8192;
    case 3: return 0xffff800000000000 + next() % 0x100000000;
    case 4: return 0xffffffff80000000 + next() % 0x40000000;
    case 5: return 0x7ffffffff000 - next() % 16;
    case 6: return 1UL << (next() % 64);
    case 7: return (1UL << 63) - 1;
    case 8: return next();
    case 9: return next() % 4096;
    case 10: return (uint32_t)next();
    case 11: return (uint64_t)(uintptr_t)scratch + SCRATCH_BYTES - next() % 64;
    case 12: return next() % 16;
    case 13: return (uint64_t)-100;
    default: return (uint64_t)(uintptr_t)scratch + next() % (SCRATCH_BYTES - 4096);
    }
}

static int excluded(long number) {
    switch (number) {
    case SYS_exit: case SYS_exit_group: case SYS_rt_sigreturn: case SYS_pause: case SYS_rt_sigsuspend:
    case SYS_nanosleep: case SYS_clock_nanosleep: case SYS_poll: case SYS_ppoll: case SYS_select: case SYS_pselect6:
    case SYS_futex: case SYS_rt_sigtimedwait: case SYS_epoll_wait: case SYS_epoll_pwait: case 441 /* epoll_pwait2 */:
    case SYS_arch_prctl:
    /* These would take the program's own code, stack or output away. */
    case SYS_munmap: case SYS_mmap: case SYS_mprotect: case SYS_mremap: case SYS_brk: case SYS_madvise:
    case SYS_kill: case SYS_tkill: case SYS_tgkill: case SYS_close: case SYS_close_range: case SYS_dup2: case SYS_dup3:
    case SYS_read: case SYS_readv: case SYS_setrlimit: case SYS_prlimit64: case SYS_write: case SYS_writev:
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 100000;
    state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    char *guarded = mmap(NULL, SCRATCH_BYTES + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guarded == MAP_FAILED || mprotect(guarded + GUARD_BYTES, SCRATCH_BYTES, PROT_READ | PROT_WRITE) != 0) return 2;
    scratch = guarded + GUARD_BYTES;
    long made = 0, failed = 0;
    for (long i = 0; i < count; i++) {
        long number = (long)(next() % 16 == 0 ? next() : next() % 460);
        uint64_t a = argument(), b = argument(), c = argument(), d = argument(), e = argument(), f = argument();
        if (excluded(number)) {
            /* Memory calls all the same, but only where nothing of ours lies. */
            if (number == SYS_munmap || number == SYS_mprotect || number == SYS_madvise || number == SYS_mremap)
                a = 0x200000000000 + (a & 0xfffffffff000), b &= 0xfffffff;
            else if (number == SYS_read || number == SYS_write || number == SYS_readv || number == SYS_writev)
                a = 1000 + a % 1000000;
            else
                number = SYS_getpid;
            if (number == SYS_mremap) d = 0;
        }
        /* What would wait is made so that it does not. */
        if (number == SYS_pipe) number = SYS_pipe2;
        if (number == SYS_eventfd) number = SYS_eventfd2;
        if (number == SYS_accept) number = SYS_accept4;
        if (number == SYS_pipe2 || number == SYS_eventfd2 || number == SYS_socket || number == SYS_socketpair) b |= O_NONBLOCK;
        if (number == SYS_accept4) d |= O_NONBLOCK;
        if (number == SYS_fcntl && (int)b == F_SETFL) c |= O_NONBLOCK;
        saved[0] = (uint64_t)number;
        long result = syscall(number, a, b, c, d, e, f);
        made++;
        failed += result < 0;
    }
    char line[128];
    int length = snprintf(line, sizeof line, "made %ld, most refused: %d\n", made, failed > made / 2);
    int out = (int)write(1, line, (size_t)length);
    _exit(out == length ? 0 : 1);
}
