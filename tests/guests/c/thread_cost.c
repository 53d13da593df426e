/* Measures what threads on one core cost, in units of the time-stamp counter; under `-icount shift=0` that is
   instructions. Prints `WHAT COUNT` lines: from a wake by futex(2) until the woken thread runs, for two threads that wake
   each other in turn (half a round trip), and for a pthread that is made and waited for. Also serves as the init of
   another kernel that is measured the same way: as process 1 it ends the machine. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

static int rounds;
static int words[2];

static long futex(int *word, int operation, int value) {
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Wakes the other thread and waits until it wakes this one. */
static void hand_over(int *mine, int *other) {
    __atomic_store_n(other, 1, __ATOMIC_RELEASE);
    futex(other, FUTEX_WAKE, 1);
    while (__atomic_load_n(mine, __ATOMIC_ACQUIRE) == 0) futex(mine, FUTEX_WAIT, 0);
    __atomic_store_n(mine, 0, __ATOMIC_RELAXED);
}

static void *partner(void *unused) {
    while (__atomic_load_n(&words[1], __ATOMIC_ACQUIRE) == 0) futex(&words[1], FUTEX_WAIT, 0);
    __atomic_store_n(&words[1], 0, __ATOMIC_RELAXED);
    for (int i = 1; i < rounds; i++) hand_over(&words[1], &words[0]);
    __atomic_store_n(&words[0], 1, __ATOMIC_RELEASE);
    futex(&words[0], FUTEX_WAKE, 1);
    return unused;
}

static void *nothing(void *unused) { return unused; }

static int measure_wake(void) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, partner, NULL);
    if (error) return fprintf(stderr, "pthread_create: %s\n", strerror(error)), 1;
    uint64_t start = __rdtsc();
    for (int i = 0; i < rounds; i++) hand_over(&words[0], &words[1]);
    printf("futex-wake %.1f\n", (double)(__rdtsc() - start) / rounds / 2);
    return pthread_join(thread, NULL);
}

static int measure_create(void) {
    uint64_t start = 0;
    /* The first one makes the stack that the others use again. */
    for (int i = 0; i <= rounds; i++) {
        pthread_t thread;
        if (i == 1) start = __rdtsc();
        int error = pthread_create(&thread, NULL, nothing, NULL);
        if (error) return fprintf(stderr, "pthread_create: %s\n", strerror(error)), 1;
        if ((error = pthread_join(thread, NULL))) return fprintf(stderr, "pthread_join: %s\n", strerror(error)), 1;
    }
    printf("create-join %.1f\n", (double)(__rdtsc() - start) / rounds);
    return 0;
}

int main(int argc, char **argv) {
    rounds = argc > 1 ? atoi(argv[1]) : 2000;
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    if (sched_setaffinity(0, sizeof first, &first) != 0) perror("sched_setaffinity");
    int status = measure_wake() || measure_create();
    fflush(stdout);
    if (getpid() == 1) reboot(RB_AUTOBOOT);
    return status;
}
