/* Does the same again and again for a debugger to look at, once that has set `go`; says what came of it, and ends with
   7. Arguments: "fault" has it touch what it may not in the end, "forever" has it never end. Threads, if a number
   follows, do the same beside it. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline, noipa))

volatile int go;
volatile long counter, watched;
static volatile int handled;

APART long add(long a, long b) { return a + b; }

APART void one_round(long number) {
    counter = add(counter, number);
    if (number % 4 == 0) watched = number;
}

APART void other_round(long number) {
    static volatile long others;
    others = add(others, number);
}

static void *others(void *unused) {
    for (long number = 1; go >= 0; number++) other_round(number);
    return unused;
}

static void handle(int signal) { handled = signal; }

APART static void touch(volatile int *nothing) { *nothing = 1; }

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 0;
    pthread_t threads[8];
    signal(SIGUSR1, handle);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, others, NULL)) return 1;
    printf("ready\n");
    fflush(stdout);
    struct timespec hour = {3600, 0};
    while (!go) {
        /* In a call, which it is to go on with however often it was taken out of it. */
        if (strcmp(how, "sleeps") == 0) nanosleep(&hour, &hour);
    }
    long last = strcmp(how, "forever") == 0 ? 1L << 60 : 8;
    for (long number = 1; number <= last; number++) one_round(number);
    raise(SIGUSR1);
    printf("counter %ld, watched %ld, handled %d\n", counter, watched, handled);
    fflush(stdout);
    if (strcmp(how, "fault") == 0) touch(NULL);
    go = -1;
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    return 7;
}
