/* Does the same fixed piece of work again and again, times each by the time-stamp counter, and says how much they differ:
   whatever else the core did in between shows. Under `-icount shift=0` the counter counts instructions, and a core that is
   left alone shows no difference at all. Arguments: the core to run on, rounds. A round is 10,000 pieces; of each it
   prints `round-N least LEAST spread SPREAD disturbed PIECES-THAT-TOOK-LONGER`, then the distribution of the pieces of the
   worst round. Also serves as the init of another kernel: as process 1 it ends the machine. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>
#include <x86intrin.h>

#define PIECES 10000
#define ITERATIONS 5000
#define CLASSES 8

static uint32_t took[PIECES];

/* Registers only: memory would bring page faults and, on real machines, caches into it. */
static inline void work(void) {
    uint64_t left = ITERATIONS;
    __asm__ volatile("1: dec %0\n jnz 1b" : "+r"(left) : : "cc");
}

int main(int argc, char **argv) {
    int core = argc > 1 ? atoi(argv[1]) : 0, rounds = argc > 2 ? atoi(argv[2]) : 1, status = 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) perror("sched_setaffinity"), status = 1;
    memset(took, 1, sizeof took);
    unsigned classes[CLASSES] = {0};
    uint64_t best = UINT64_MAX, worst = 0;
    for (int round = 0; round < rounds && status == 0; round++) {
        for (int piece = 0; piece < PIECES; piece++) {
            uint64_t start = __rdtsc();
            work();
            uint64_t time = __rdtsc() - start;
            took[piece] = time > UINT32_MAX ? UINT32_MAX : (uint32_t)time;
        }
        uint32_t least = UINT32_MAX, most = 0;
        unsigned disturbed = 0, found[CLASSES] = {0};
        for (int piece = 0; piece < PIECES; piece++) {
            if (took[piece] < least) least = took[piece];
            if (took[piece] > most) most = took[piece];
        }
        for (int piece = 0; piece < PIECES; piece++) {
            uint32_t more = took[piece] - least;
            disturbed += more != 0;
            /* None, up to 10, up to 100, … */
            int class = 0;
            for (uint64_t bound = 1; more >= bound && class < CLASSES - 1; bound *= 10) class++;
            found[class]++;
        }
        uint64_t spread = most - least;
        printf("round-%d least %u spread %llu disturbed %u\n", round, least, (unsigned long long)spread, disturbed);
        if (spread < best) best = spread;
        if (spread >= worst) worst = spread, memcpy(classes, found, sizeof classes);
    }
    printf("spread-least %llu\nspread-most %llu\n", (unsigned long long)best, (unsigned long long)worst);
    uint64_t bound = 1;
    for (int class = 0; class < CLASSES; class++, bound *= 10) {
        if (classes[class] && class == 0) printf("distribution 0: %u\n", classes[class]);
        else if (classes[class]) printf("distribution <%llu: %u\n", (unsigned long long)bound, classes[class]);
    }
    fflush(stdout);
    if (getpid() == 1) reboot(RB_AUTOBOOT);
    return status;
}
