/* How much faster several threads are than one: the triad of STREAM (a = b + s * c) and a loop that computes, both by
   OpenMP with a static schedule. Argument: threads. Each is run by one thread and by all of them in turn, several times;
   prints the shortest of each in ns, `WHAT-one NS` and `WHAT-all NS`, and `WHAT-speed-up RATIO`. The results are checked.
   Also serves as the init of another kernel: as process 1 it ends the machine. */
#define _GNU_SOURCE
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/reboot.h>
#include <time.h>
#include <unistd.h>

#define COUNT (1 << 18)
#define PASSES 4
#define STEPS 4000000
#define REPEATS 25

static double a[COUNT], b[COUNT], c[COUNT];

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int triad(void) {
    for (int pass = 1; pass <= PASSES; pass++) {
        double scalar = pass;
#pragma omp parallel for schedule(static)
        for (int i = 0; i < COUNT; i++) a[i] = b[i] + scalar * c[i];
    }
    return a[0] == b[0] + PASSES * c[0] && a[COUNT - 1] == b[COUNT - 1] + PASSES * c[COUNT - 1];
}

/* Integers, so that the sum does not depend on who adds which part. */
static int compute(void) {
    uint64_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int i = 0; i < STEPS; i++) {
        uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15;
        x ^= x >> 29;
        x *= 0xbf58476d1ce4e5b9;
        sum += x >> 32;
    }
    static uint64_t expected;
    if (expected == 0) expected = sum;
    return sum == expected;
}

static int measure(const char *name, int (*work)(void), int threads) {
    uint64_t least[2] = {UINT64_MAX, UINT64_MAX};
    for (int repeat = 0; repeat <= REPEATS; repeat++) {
        for (int all = 0; all < 2; all++) {
            omp_set_num_threads(all ? threads : 1);
            uint64_t start = now_ns();
            if (!work()) return fprintf(stderr, "%s: wrong result by %d threads\n", name, all ? threads : 1), 1;
            uint64_t took = now_ns() - start;
            /* The first ones touch the memory and make the threads. */
            if (repeat > 0 && took < least[all]) least[all] = took;
        }
    }
    printf("%s-one %llu\n%s-all %llu\n", name, (unsigned long long)least[0], name, (unsigned long long)least[1]);
    printf("%s-speed-up %.2f\n", name, (double)least[0] / (double)least[1]);
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    for (int i = 0; i < COUNT; i++) b[i] = i, c[i] = 0.5 * i;
    int status = measure("triad", triad, threads) || measure("loop", compute, threads);
    fflush(stdout);
    if (getpid() == 1) reboot(RB_AUTOBOOT);
    return status;
}
