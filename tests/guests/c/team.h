/* What the programs with threads share: a check that names itself and ends the process, and teams of threads. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { \
    printf("%s:%d: not true: %s (errno %d)\n", __FILE_NAME__, __LINE__, #condition, errno); \
    fflush(stdout); \
    _exit(99); } } while (0)

/* A call that gives an error's number gives this one. */
#define GIVES(expected, call) do { int gave_ = (call); if (gave_ != (expected)) { \
    printf("%s:%d: %s gives %d, not %d\n", __FILE_NAME__, __LINE__, #call, gave_, (expected)); \
    fflush(stdout); \
    _exit(99); } } while (0)

static inline pthread_t begin(void *(*body)(void *), long number) {
    pthread_t thread;
    GIVES(0, pthread_create(&thread, NULL, body, (void *)number));
    return thread;
}

static inline long finish(pthread_t thread) {
    void *result;
    GIVES(0, pthread_join(thread, &result));
    return (long)result;
}

/* Runs so many threads to their end, each with its number; the sum of what they give. */
static inline long team(int threads, void *(*body)(void *)) {
    pthread_t all[512];
    long sum = 0;
    for (int i = 0; i < threads; i++) all[i] = begin(body, i);
    for (int i = 0; i < threads; i++) sum += finish(all[i]);
    return sum;
}

static inline long now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* So many ns from now by that clock. */
static inline struct timespec in_ns(clockid_t clock, long ns) {
    long at = now_ns(clock) + ns;
    return (struct timespec){.tv_sec = at / 1000000000L, .tv_nsec = at % 1000000000L};
}

static inline void pause_ns(long ns) {
    struct timespec time = {.tv_sec = ns / 1000000000L, .tv_nsec = ns % 1000000000L};
    while (nanosleep(&time, &time) != 0) CHECK(errno == EINTR);
}
