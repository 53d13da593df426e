/* What POSIX threads wait for each other with: mutexes of every kind, conditions, rwlocks, barriers, spin locks,
   semaphores. Without an argument within a process; with "ranks N" between the N ranks of a node, through /dev/shm.
   What is printed does not depend on who runs when. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "team.h"

#define THREADS 32
#define ROUNDS 400
#define SHORT_NS 20000000L

static pthread_mutex_t mutex;
static pthread_cond_t changed;
static long count;

static pthread_mutexattr_t *kind(int type, int robust, int protocol) {
    static pthread_mutexattr_t attributes;
    GIVES(0, pthread_mutexattr_init(&attributes));
    GIVES(0, pthread_mutexattr_settype(&attributes, type));
    GIVES(0, pthread_mutexattr_setrobust(&attributes, robust));
    GIVES(0, pthread_mutexattr_setprotocol(&attributes, protocol));
    return &attributes;
}

static void *adds(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        GIVES(0, pthread_mutex_lock(&mutex));
        long now = count;
        if (i % 16 == 0) sched_yield();
        count = now + 1;
        GIVES(0, pthread_mutex_unlock(&mutex));
    }
    return NULL;
}

static void *wrong_owner(void *unused) {
    (void)unused;
    struct timespec soon = in_ns(CLOCK_REALTIME, SHORT_NS);
    GIVES(EBUSY, pthread_mutex_trylock(&mutex));
    GIVES(EPERM, pthread_mutex_unlock(&mutex));
    GIVES(ETIMEDOUT, pthread_mutex_timedlock(&mutex, &soon));
    return NULL;
}

static void *dies_with_it(void *unused) {
    (void)unused;
    GIVES(0, pthread_mutex_lock(&mutex));
    return NULL;
}

static void *inherits(void *unused) {
    (void)unused;
    GIVES(EOWNERDEAD, pthread_mutex_lock(&mutex));
    GIVES(0, pthread_mutex_consistent(&mutex));
    GIVES(0, pthread_mutex_unlock(&mutex));
    return NULL;
}

static void mutexes(void) {
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
    for (int i = 0; i < 3; i++) {
        GIVES(0, pthread_mutex_init(&mutex, kind(types[i], PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE)));
        team(THREADS, adds);
        GIVES(0, pthread_mutex_destroy(&mutex));
    }
    GIVES(0, pthread_mutex_init(&mutex, kind(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE)));
    team(THREADS, adds);
    GIVES(0, pthread_mutex_lock(&mutex));
    GIVES(EDEADLK, pthread_mutex_lock(&mutex));
    finish(begin(wrong_owner, 0));
    /* It waits while the owner dies. */
    GIVES(0, pthread_mutex_unlock(&mutex));
    for (int i = 0; i < 20; i++) {
        finish(begin(dies_with_it, 0));
        finish(begin(inherits, 0));
    }
    finish(begin(dies_with_it, 0));
    GIVES(EOWNERDEAD, pthread_mutex_trylock(&mutex));
    GIVES(0, pthread_mutex_unlock(&mutex));
    /* Nobody said that it is consistent again. */
    GIVES(ENOTRECOVERABLE, pthread_mutex_lock(&mutex));
    GIVES(0, pthread_mutex_destroy(&mutex));
    GIVES(0, pthread_mutex_init(&mutex, kind(PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE)));
    for (int i = 0; i < 5; i++) GIVES(0, pthread_mutex_lock(&mutex));
    finish(begin(wrong_owner, 0));
    for (int i = 0; i < 5; i++) GIVES(0, pthread_mutex_unlock(&mutex));
    GIVES(EPERM, pthread_mutex_unlock(&mutex));
    GIVES(0, pthread_mutex_destroy(&mutex));
    printf("mutexes %ld\n", count);
}

static pthread_barrier_t all_there;

/* Waits for the mutex while its owner dies with it. */
static void *dies_slowly(void *unused) {
    (void)unused;
    GIVES(0, pthread_mutex_lock(&mutex));
    pthread_barrier_wait(&all_there);
    pause_ns(SHORT_NS);
    return NULL;
}

static void *waits_for_the_dead(void *unused) {
    (void)unused;
    pthread_barrier_wait(&all_there);
    int gave = pthread_mutex_lock(&mutex);
    CHECK(gave == 0 || gave == EOWNERDEAD);
    if (gave == EOWNERDEAD) GIVES(0, pthread_mutex_consistent(&mutex));
    GIVES(0, pthread_mutex_unlock(&mutex));
    return (void *)(long)(gave == EOWNERDEAD);
}

static void robust(void) {
    pthread_t heirs[8];
    long deaths = 0;
    GIVES(0, pthread_mutex_init(&mutex, kind(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE)));
    GIVES(0, pthread_barrier_init(&all_there, NULL, 9));
    for (int i = 0; i < 8; i++) heirs[i] = begin(waits_for_the_dead, i);
    finish(begin(dies_slowly, 0));
    for (int i = 0; i < 8; i++) deaths += finish(heirs[i]);
    printf("one of %d was told that the owner died: %ld\n", 8, deaths);
    pthread_mutex_destroy(&mutex);
    pthread_barrier_destroy(&all_there);
}

static long produced, consumed;
static int queue[8], held;
static pthread_cond_t room = PTHREAD_COND_INITIALIZER, work = PTHREAD_COND_INITIALIZER;

static void *produces_or_consumes(void *number) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        if ((long)number % 2) {
            while (held == 8) pthread_cond_wait(&room, &mutex);
            queue[held++] = (int)(long)number * ROUNDS + i;
            produced += (long)number * ROUNDS + i;
            pthread_cond_signal(&work);
        } else {
            while (held == 0) pthread_cond_wait(&work, &mutex);
            consumed += queue[--held];
            pthread_cond_signal(&room);
        }
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static int gone;

static void *waits_for_go(void *unused) {
    (void)unused;
    pthread_mutex_lock(&mutex);
    while (!gone) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    return (void *)1L;
}

static void times_out(clockid_t clock) {
    pthread_condattr_t attributes;
    GIVES(0, pthread_condattr_init(&attributes));
    GIVES(0, pthread_condattr_setclock(&attributes, clock));
    pthread_cond_t never;
    GIVES(0, pthread_cond_init(&never, &attributes));
    long start_ns = now_ns(CLOCK_MONOTONIC);
    struct timespec until = in_ns(clock, SHORT_NS), past = in_ns(clock, -SHORT_NS);
    pthread_mutex_lock(&mutex);
    GIVES(ETIMEDOUT, pthread_cond_timedwait(&never, &mutex, &until));
    CHECK(now_ns(CLOCK_MONOTONIC) - start_ns >= SHORT_NS - 1000000);
    GIVES(ETIMEDOUT, pthread_cond_timedwait(&never, &mutex, &past));
    until.tv_nsec = 1000000000L;
    GIVES(EINVAL, pthread_cond_timedwait(&never, &mutex, &until));
    pthread_mutex_unlock(&mutex);
    GIVES(0, pthread_cond_destroy(&never));
}

static void conditions(void) {
    pthread_t all[THREADS];
    GIVES(0, pthread_mutex_init(&mutex, NULL));
    team(THREADS, produces_or_consumes);
    printf("produced %ld, consumed %ld, left %d\n", produced, consumed, held);
    GIVES(0, pthread_cond_init(&changed, NULL));
    for (int i = 0; i < THREADS; i++) all[i] = begin(waits_for_go, i);
    pause_ns(SHORT_NS);
    pthread_mutex_lock(&mutex);
    gone = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    long woken = 0;
    for (int i = 0; i < THREADS; i++) woken += finish(all[i]);
    times_out(CLOCK_REALTIME);
    times_out(CLOCK_MONOTONIC);
    GIVES(0, pthread_cond_destroy(&changed));
    printf("broadcast woke %ld; both clocks end waiting\n", woken);
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static long left_hand, right_hand;
static atomic_int inside, inside_most;

static void comes_in(void) {
    int now = atomic_fetch_add(&inside, 1) + 1;
    if (now > atomic_load(&inside_most)) atomic_store(&inside_most, now);
}

static void *reads_and_writes(void *number) {
    long unequal = 0;
    for (int i = 0; i < ROUNDS; i++) {
        if ((i + (long)number) % 8 == 0) {
            GIVES(0, pthread_rwlock_wrlock(&rwlock));
            CHECK(atomic_load(&inside) == 0);
            left_hand++;
            if (i % 16 == 0) sched_yield();
            right_hand++;
        } else {
            GIVES(0, pthread_rwlock_rdlock(&rwlock));
            comes_in();
            unequal += left_hand != right_hand;
            if (i % 16 == 1) sched_yield();
            atomic_fetch_sub(&inside, 1);
        }
        GIVES(0, pthread_rwlock_unlock(&rwlock));
    }
    return (void *)unequal;
}

static void *cannot_write(void *unused) {
    (void)unused;
    struct timespec soon = in_ns(CLOCK_REALTIME, SHORT_NS);
    GIVES(EBUSY, pthread_rwlock_trywrlock(&rwlock));
    GIVES(ETIMEDOUT, pthread_rwlock_timedwrlock(&rwlock, &soon));
    /* Others may have had no time to read beside each other; this one surely does. */
    GIVES(0, pthread_rwlock_tryrdlock(&rwlock));
    comes_in();
    atomic_fetch_sub(&inside, 1);
    GIVES(0, pthread_rwlock_unlock(&rwlock));
    return NULL;
}

static void rwlocks(void) {
    long unequal = team(THREADS, reads_and_writes);
    GIVES(0, pthread_rwlock_rdlock(&rwlock));
    comes_in();
    finish(begin(cannot_write, 0));
    atomic_fetch_sub(&inside, 1);
    GIVES(0, pthread_rwlock_unlock(&rwlock));
    printf("rwlock: written %ld, unequal %ld, several readers %d\n", left_hand, unequal, inside_most > 1);
}

static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static sem_t semaphore;
static atomic_int there[ROUNDS];

static void *meets(void *unused) {
    (void)unused;
    long serial = 0;
    for (int i = 0; i < ROUNDS / 4; i++) {
        atomic_fetch_add(&there[i], 1);
        int gave = pthread_barrier_wait(&barrier);
        CHECK(gave == 0 || gave == PTHREAD_BARRIER_SERIAL_THREAD);
        serial += gave != 0;
        CHECK(atomic_load(&there[i]) == THREADS);
    }
    return (void *)serial;
}

static void *spins(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        GIVES(0, pthread_spin_lock(&spin));
        count++;
        GIVES(0, pthread_spin_unlock(&spin));
    }
    return NULL;
}

static void *posts_or_waits(void *number) {
    for (int i = 0; i < ROUNDS; i++) {
        if ((long)number % 2) CHECK(sem_post(&semaphore) == 0);
        else CHECK(sem_wait(&semaphore) == 0);
    }
    return NULL;
}

static void others(void) {
    int value;
    GIVES(0, pthread_barrier_init(&barrier, NULL, THREADS));
    printf("barrier: serial %ld\n", team(THREADS, meets));
    GIVES(0, pthread_barrier_destroy(&barrier));
    count = 0;
    GIVES(0, pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    team(8, spins);
    GIVES(0, pthread_spin_destroy(&spin));
    CHECK(sem_init(&semaphore, 0, 3) == 0);
    team(THREADS, posts_or_waits);
    CHECK(sem_getvalue(&semaphore, &value) == 0);
    printf("spin lock %ld, semaphore %d\n", count, value);
    while (sem_trywait(&semaphore) == 0) {}
    CHECK(errno == EAGAIN);
    struct timespec soon = in_ns(CLOCK_REALTIME, SHORT_NS);
    CHECK(sem_timedwait(&semaphore, &soon) == -1 && errno == ETIMEDOUT);
    CHECK(sem_destroy(&semaphore) == 0);
}

/* What the ranks of a node share. */
struct node {
    atomic_int ranks, ready, done, locked;
    pthread_mutex_t mutex, robust;
    pthread_cond_t changed;
    pthread_rwlock_t rwlock;
    pthread_barrier_t barrier;
    sem_t semaphore;
    long count, turn, left_hand, right_hand;
};

static struct node *node;
static int ranks, here;

#define TEAM 4

static void *shares(void *number) {
    for (int i = 0; i < ROUNDS; i++) {
        GIVES(0, pthread_mutex_lock(&node->mutex));
        node->count++;
        GIVES(0, pthread_mutex_unlock(&node->mutex));
        if (i % 4) {
            GIVES(0, pthread_rwlock_rdlock(&node->rwlock));
            CHECK(node->left_hand == node->right_hand);
        } else {
            GIVES(0, pthread_rwlock_wrlock(&node->rwlock));
            node->left_hand++;
            node->right_hand++;
        }
        GIVES(0, pthread_rwlock_unlock(&node->rwlock));
        if (i % 16 == 0) pthread_barrier_wait(&node->barrier);
        if (here % 2) CHECK(sem_post(&node->semaphore) == 0);
        else CHECK(sem_wait(&node->semaphore) == 0);
    }
    /* Turns, one thread of the node after the other. */
    int mine = here * TEAM + (int)(long)number, all = ranks * TEAM;
    pthread_mutex_lock(&node->mutex);
    for (int i = 0; i < 20; i++) {
        while (node->turn % all != mine) GIVES(0, pthread_cond_wait(&node->changed, &node->mutex));
        node->turn++;
        pthread_cond_broadcast(&node->changed);
    }
    pthread_mutex_unlock(&node->mutex);
    return NULL;
}

static void between_ranks(void) {
    int file = shm_open("/node", O_CREAT | O_RDWR, 0600);
    CHECK(file >= 0 && ftruncate(file, sizeof *node) == 0);
    node = mmap(NULL, sizeof *node, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(node != MAP_FAILED);
    here = atomic_fetch_add(&node->ranks, 1);
    if (here == 0) {
        pthread_mutexattr_t *attributes = kind(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
        GIVES(0, pthread_mutexattr_setpshared(attributes, PTHREAD_PROCESS_SHARED));
        GIVES(0, pthread_mutex_init(&node->mutex, attributes));
        GIVES(0, pthread_mutexattr_setrobust(attributes, PTHREAD_MUTEX_ROBUST));
        GIVES(0, pthread_mutex_init(&node->robust, attributes));
        pthread_condattr_t condition;
        pthread_rwlockattr_t reading;
        pthread_barrierattr_t meeting;
        GIVES(0, pthread_condattr_init(&condition));
        GIVES(0, pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED));
        GIVES(0, pthread_cond_init(&node->changed, &condition));
        GIVES(0, pthread_rwlockattr_init(&reading));
        GIVES(0, pthread_rwlockattr_setpshared(&reading, PTHREAD_PROCESS_SHARED));
        GIVES(0, pthread_rwlock_init(&node->rwlock, &reading));
        GIVES(0, pthread_barrierattr_init(&meeting));
        GIVES(0, pthread_barrierattr_setpshared(&meeting, PTHREAD_PROCESS_SHARED));
        GIVES(0, pthread_barrier_init(&node->barrier, &meeting, TEAM * ranks));
        CHECK(sem_init(&node->semaphore, 1, 0) == 0);
        atomic_store(&node->ready, 1);
    }
    while (!atomic_load(&node->ready)) sched_yield();
    team(TEAM, shares);
    atomic_fetch_add(&node->done, 1);
    while (atomic_load(&node->done) < ranks) sched_yield();
    /* With two it is known who waits for whom: this rank's death is told to the other. */
    if (here == 0) {
        CHECK(node->turn == 20 * TEAM * ranks && node->count == (long)ROUNDS * TEAM * ranks);
        GIVES(0, pthread_mutex_lock(&node->robust));
        atomic_store(&node->locked, 1);
        pause_ns(SHORT_NS);
        puts("leaves with it");
        fflush(stdout);
        _exit(0);
    }
    while (!atomic_load(&node->locked)) sched_yield();
    GIVES(EOWNERDEAD, pthread_mutex_lock(&node->robust));
    printf("counted %ld, written %ld, turns %ld\n", node->count, node->left_hand, node->turn);
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "ranks") == 0) {
        ranks = atoi(argv[2]);
        CHECK(ranks == 2);
        between_ranks();
        return 0;
    }
    mutexes();
    robust();
    conditions();
    rwlocks();
    others();
    puts("all well");
    return 0;
}
