/* Computes in functions whose parts of the time are known, and says what these were by its own clock: `profiled [MS]`,
   for about so long (3000). Before that and after it, it sleeps for a while, so that all of it is within epochs that
   are looked at as a whole.

   main calls work, that calls one_round, and that `heavy`, `medium` and `light`, which take about 60, 30 and 10 % of
   the time. All of them keep frame pointers, whatever else they are compiled with.

   Prints for each of the three `NAME NS SHARE`, the time of the processor that it took and its part of that of all
   three, and `total NS`. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#pragma GCC optimize("no-omit-frame-pointer")

#define FUNCTION __attribute__((noinline, noclone))

/* Also in a function that calls none: who asks where his frame is has one. */
#define HAS_FRAME __asm__ volatile("" ::"r"(__builtin_frame_address(0)))

/* Steps of a tenth of a round, each of which waits for the one before. */
#define TENTH 1000000
#define STEP(sum, i) ((sum) * 6364136223846793005UL + (i))

static volatile unsigned long kept;

static long long processor_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void rest(long ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

FUNCTION unsigned long heavy(unsigned long sum) {
    HAS_FRAME;
    for (unsigned long i = 0; i < 6 * TENTH; i++)
        sum = STEP(sum, i);
    return sum;
}

FUNCTION unsigned long medium(unsigned long sum) {
    HAS_FRAME;
    for (unsigned long i = 0; i < 3 * TENTH; i++)
        sum = STEP(sum, i);
    return sum;
}

FUNCTION unsigned long light(unsigned long sum) {
    HAS_FRAME;
    for (unsigned long i = 0; i < TENTH; i++)
        sum = STEP(sum, i);
    return sum;
}

static const char *const names[] = {"heavy", "medium", "light"};
static long long took_ns[3];

FUNCTION unsigned long one_round(unsigned long sum) {
    long long begun = processor_ns();
    sum += heavy(sum);
    long long heavy_ns = processor_ns();
    sum += medium(sum);
    long long medium_ns = processor_ns();
    sum += light(sum);
    long long light_ns = processor_ns();
    took_ns[0] += heavy_ns - begun;
    took_ns[1] += medium_ns - heavy_ns;
    took_ns[2] += light_ns - medium_ns;
    return sum;
}

FUNCTION unsigned long work(long ms) {
    unsigned long sum = 0;
    for (long long end = processor_ns() + ms * 1000000LL; processor_ns() < end;)
        sum += one_round(sum);
    return sum;
}

int main(int count, char **arguments) {
    long ms = count > 1 ? atol(arguments[1]) : 3000;
    rest(1200);
    kept = work(ms);
    rest(1200);
    long long total = took_ns[0] + took_ns[1] + took_ns[2];
    for (int i = 0; i < 3; i++)
        printf("%s %lld %.4f\n", names[i], took_ns[i], (double)took_ns[i] / total);
    printf("total %lld\n", total);
    return 0;
}
