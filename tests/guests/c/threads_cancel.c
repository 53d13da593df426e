/* POSIX threads that are cancelled: asleep, before they sleep, spinning, unwilling, waiting for a condition; their
   clean-up handlers run. What is printed does not depend on who runs when. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>

#include "team.h"

static atomic_int cleaned, spinning;

static void clean(void *number) {
    atomic_fetch_add(&cleaned, (int)(long)number);
}

static void *sleeps(void *number) {
    pthread_cleanup_push(clean, number);
    for (;;) pause();
    pthread_cleanup_pop(0);
    return NULL;
}

static void *reads(void *ends) {
    char byte;
    pthread_cleanup_push(clean, (void *)100L);
    CHECK(read((int)(long)ends, &byte, 1) == 1);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *spins(void *unused) {
    (void)unused;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    atomic_fetch_add(&spinning, 1);
    for (;;) atomic_signal_fence(memory_order_seq_cst);
    return NULL;
}

static atomic_int stage;

static void *refuses(void *unused) {
    (void)unused;
    int old;
    GIVES(0, pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old));
    CHECK(old == PTHREAD_CANCEL_ENABLE);
    atomic_store(&stage, 1);
    while (atomic_load(&stage) == 1) sched_yield();
    pause_ns(1000000);
    pthread_testcancel();
    atomic_store(&stage, 3);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_testcancel();
    return NULL;
}

static pthread_mutex_t cancel_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cancel_cond = PTHREAD_COND_INITIALIZER;

static void unlock(void *mutex) {
    pthread_mutex_unlock(mutex);
    atomic_fetch_add(&cleaned, 1000);
}

static void *waits(void *unused) {
    (void)unused;
    pthread_mutex_lock(&cancel_mutex);
    pthread_cleanup_push(unlock, &cancel_mutex);
    atomic_store(&stage, 4);
    for (;;) pthread_cond_wait(&cancel_cond, &cancel_mutex);
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancelled_one(pthread_t thread) {
    GIVES(0, pthread_cancel(thread));
    CHECK(finish(thread) == (long)PTHREAD_CANCELED);
}

static void cancelled(void) {
    int pipe_ends[2];
    CHECK(pipe(pipe_ends) == 0);
    cancelled_one(begin(sleeps, 1));
    pthread_t asleep = begin(sleeps, 10), reading = begin(reads, pipe_ends[0]);
    pause_ns(20000000);
    cancelled_one(asleep);
    cancelled_one(reading);
    pthread_t spinner = begin(spins, 0);
    while (!atomic_load(&spinning)) sched_yield();
    cancelled_one(spinner);
    pthread_t refusing = begin(refuses, 0);
    while (!atomic_load(&stage)) sched_yield();
    GIVES(0, pthread_cancel(refusing));
    atomic_store(&stage, 2);
    CHECK(finish(refusing) == (long)PTHREAD_CANCELED && atomic_load(&stage) == 3);
    pthread_t waiting = begin(waits, 0);
    while (atomic_load(&stage) != 4) sched_yield();
    cancelled_one(waiting);
    GIVES(0, pthread_mutex_trylock(&cancel_mutex));
    pthread_mutex_unlock(&cancel_mutex);
    printf("cancelled, cleaned %d\n", atomic_load(&cleaned));
}

int main(void) {
    cancelled();
    return 0;
}
