/* Threads in functions of known names: one computes, one sleeps, one waits for a condition, and the first one reads.
   Ends with its input. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline, noipa))

/* Looked for in the core. */
char marked[64] = "before it ran";
static char large[32 << 20];
volatile long computed;
static volatile int over, sleeps;
static int waits;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

APART static int computes_deep(int depth) {
    if (depth > 0) {
        /* Not to be made a loop. */
        volatile int below = computes_deep(depth - 1);
        return below + 1;
    }
    /* A vector register that is to be seen. */
    double sum = 0;
    while (!over) {
        computed++;
        sum += 1.5;
    }
    return sum > 0;
}

APART static int sleeps_long(void) {
    struct timespec hour = {3600, 0};
    sleeps = 1;
    while (!over) nanosleep(&hour, &hour);
    return 1;
}

APART static int waits_for_change(void) {
    pthread_mutex_lock(&lock);
    waits = 1;
    while (!over) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return 1;
}

static void *first(void *unused) { return computes_deep(3) ? unused : NULL; }
static void *second(void *unused) { return sleeps_long() ? unused : NULL; }
static void *third(void *unused) { return waits_for_change() ? unused : NULL; }

/* Is there when it says so. */
APART static int reads_to_the_end(void) {
    char byte;
    printf("ready\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0) {}
    return 1;
}

/* Who waits for the change has given the lock back. */
static int all_are_there(void) {
    pthread_mutex_lock(&lock);
    int there = waits && sleeps && computed > 0;
    pthread_mutex_unlock(&lock);
    return there;
}

int main(void) {
    pthread_t threads[3];
    void *(*bodies[3])(void *) = {first, second, third};
    strcpy(marked, "seen in the core");
    large[20 << 20] = 'x';
    for (int i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, bodies[i], NULL)) return 1;
    while (!all_are_there()) usleep(1000);
    if (!reads_to_the_end()) return 1;
    long before = computed;
    usleep(50000);
    if (computed == before) return 2;
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(threads[0], NULL);
    pthread_join(threads[2], NULL);
    printf("went on\n");
    return 0;
}
