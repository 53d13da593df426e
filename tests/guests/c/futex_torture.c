/* Many threads at locks, conditions, barriers, rwlocks and raw futexes, and a look at every promise: nobody is inside
   together with another, no wake-up is lost, no count is wrong. Arguments: threads (64), part of the work in percent
   (100, about 1,100,000 operations), seconds until it is a hang (100).
   First all threads do each exercise together, then groups of eight do different ones at the same time. */
#define _GNU_SOURCE
#include <sched.h>

#include "team.h"

#include "futex.h"

#define MEMBERS_MAX 128
#define GROUP 8
#define EXERCISES 10

struct line {
    word value;
    char apart[60];
};

/* What the members of a group share. */
struct group {
    int members;
    /* Of `exclusive`. */
    int owner;
    long inside, left, right;
    pthread_mutex_t mutex;
    pthread_cond_t room, work;
    pthread_rwlock_t rwlock;
    pthread_barrier_t barrier;
    int held;
    long produced, consumed;
    atomic_long arrived;
    word turn, conductor, lock, sequence, generation, tokens, added, credit;
    long here;
    struct line own[MEMBERS_MAX];
};

static int threads = 64, percent = 100, limit_s = 100;
static atomic_long operations, timeouts;
static const char *volatile doing = "start";

static int times(int count) {
    return count * percent / 100 < 2 ? 2 : count * percent / 100;
}

static void exclusive(struct group *g, int me, int pause) {
    CHECK(g->owner == 0);
    g->owner = me + 1;
    g->inside++;
    if (pause) sched_yield();
    CHECK(g->owner == me + 1);
    g->owner = 0;
}

/* A barrier of the C library between two exercises, and the sum that one left. */
static void meet(struct group *g) {
    pthread_barrier_wait(&g->barrier);
}

static long mutexes(struct group *g, int me) {
    int rounds = times(3000);
    for (int i = 0; i < rounds; i++) {
        GIVES(0, pthread_mutex_lock(&g->mutex));
        exclusive(g, me, i % 64 == 0);
        GIVES(0, pthread_mutex_unlock(&g->mutex));
    }
    meet(g);
    CHECK(g->inside == (long)rounds * g->members);
    return rounds;
}

static long conditions(struct group *g, int me) {
    int rounds = times(500);
    for (int i = 0; i < rounds; i++) {
        pthread_mutex_lock(&g->mutex);
        if (me % 2) {
            while (g->held == 4) pthread_cond_wait(&g->room, &g->mutex);
            g->held++;
            g->produced++;
            pthread_cond_signal(&g->work);
        } else {
            while (g->held == 0) pthread_cond_wait(&g->work, &g->mutex);
            g->held--;
            g->consumed++;
            if (i % 8) pthread_cond_signal(&g->room);
            else pthread_cond_broadcast(&g->room);
        }
        pthread_mutex_unlock(&g->mutex);
    }
    meet(g);
    CHECK(g->held == 0 && g->produced == g->consumed && g->produced == (long)rounds * g->members / 2);
    return rounds;
}

static long barriers(struct group *g, int me) {
    int rounds = times(100);
    (void)me;
    for (int i = 1; i <= rounds; i++) {
        atomic_fetch_add(&g->arrived, 1);
        pthread_barrier_wait(&g->barrier);
        CHECK(atomic_load(&g->arrived) >= (long)i * g->members);
    }
    meet(g);
    CHECK(atomic_load(&g->arrived) == (long)rounds * g->members);
    return rounds;
}

static long rwlocks(struct group *g, int me) {
    int rounds = times(2000);
    for (int i = 0; i < rounds; i++) {
        int writes = (i + me) % 16 == 0;
        GIVES(0, writes ? pthread_rwlock_wrlock(&g->rwlock) : pthread_rwlock_rdlock(&g->rwlock));
        CHECK(g->left == g->right);
        if (writes) {
            g->left++;
            if (i % 64 == 0) sched_yield();
            g->right++;
        }
        GIVES(0, pthread_rwlock_unlock(&g->rwlock));
    }
    return rounds;
}

static long raw_locks(struct group *g, int me) {
    int rounds = times(2000);
    for (int i = 0; i < rounds; i++) {
        lock(&g->lock);
        exclusive(g, me, i % 32 == 0);
        unlock(&g->lock);
    }
    return rounds;
}

/* Two and two: each waits for the other at every step. One lost wake-up and they stand still. */
static long pairs(struct group *g, int me) {
    int rounds = times(400);
    word *mine = &g->own[me].value, *others = &g->own[me ^ 1].value;
    for (int i = 0; i < rounds; i++) {
        if (me % 2) wait_while(mine, (uint32_t)i);
        atomic_fetch_add(others, 1);
        futex_wake(others, 1);
        if (me % 2 == 0) wait_while(mine, (uint32_t)i);
    }
    return 2 * rounds;
}

/* One word, each member asleep at it with a bit of its own (or shared with one other); the first wakes them by bit. */
static long bits(struct group *g, int me) {
    int rounds = times(20), woken = 0;
    const int wait = FUTEX_WAIT_BITSET | FUTEX_PRIVATE, wake = FUTEX_WAKE_BITSET | FUTEX_PRIVATE;
    if (me == 0) {
        CHECK(futex(&g->turn, wait, 0, NULL, NULL, 0) == -EINVAL && futex(&g->turn, wake, 1, NULL, NULL, 0) == -EINVAL);
        for (int i = 0; i < rounds; i++) {
            for (int to = 1; to < g->members; to++) {
                atomic_store(&g->turn, (uint32_t)to);
                long gave = futex(&g->turn, wake, INT_MAX, NULL, NULL, 1u << (to % 31));
                CHECK(gave >= 0 && gave <= (g->members + 29) / 31);
                wait_while(&g->conductor, (uint32_t)woken);
                woken++;
            }
        }
        atomic_store(&g->turn, UINT32_MAX);
        futex(&g->turn, wake, INT_MAX, NULL, NULL, FUTEX_MATCH_ANY);
        return woken;
    }
    for (uint32_t turn;; ) {
        turn = atomic_load(&g->turn);
        if (turn == UINT32_MAX) break;
        if (turn == (uint32_t)me) {
            woken++;
            atomic_store(&g->turn, 0);
            atomic_fetch_add(&g->conductor, 1);
            futex_wake(&g->conductor, 1);
        } else {
            struct timespec never = in_ns(CLOCK_MONOTONIC, 1000000000000L);
            long gave = futex(&g->turn, wait, turn, &never, NULL, 1u << (me % 31));
            CHECK(gave == 0 || gave == -EAGAIN || gave == -EINTR);
        }
    }
    CHECK(woken == rounds);
    return woken;
}

/* All wait at one word and are moved to the lock's, whose holders wake one after the other. */
static long moved(struct group *g, int me) {
    int rounds = times(60);
    for (int i = 0; i < rounds; i++) {
        lock(&g->lock);
        exclusive(g, me, 0);
        uint32_t generation = atomic_load(&g->generation);
        if (++g->here < g->members) {
            while (atomic_load(&g->generation) == generation) {
                unlock(&g->lock);
                futex_wait(&g->generation, generation);
                lock_waited_for(&g->lock);
            }
            exclusive(g, me, 0);
        } else {
            g->here = 0;
            uint32_t now = atomic_fetch_add(&g->generation, 1) + 1;
            const void *all = (void *)(long)INT_MAX;
            CHECK(futex(&g->generation, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE, 1, all, &g->lock, now - 1) == -EAGAIN);
            long gave = i % 2 ? futex(&g->generation, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE, 1, all, &g->lock, now)
                              : futex(&g->generation, FUTEX_REQUEUE | FUTEX_PRIVATE, 1, all, &g->lock, 0);
            CHECK(gave >= 0 && gave < g->members);
        }
        unlock(&g->lock);
    }
    return rounds;
}

/* One call that lets go of the lock, wakes who waits for that and who waits for a token. */
static long both(struct group *g, int me) {
    int rounds = times(400);
    const uint32_t release = wake_op(OP_SET, 0, CMP_GT, 1), add = wake_op(OP_ADD, 1, CMP_LT, 0);
    for (int i = 0; i < rounds; i++) {
        lock(&g->lock);
        if (me % 2) {
            g->produced++;
            g->held++;
            atomic_fetch_add(&g->sequence, 1);
            exclusive(g, me, 0);
            long gave = futex(&g->sequence, FUTEX_WAKE_OP | FUTEX_PRIVATE, 1, (void *)1L, &g->lock, release);
            CHECK(gave >= 0 && gave <= 2);
        } else {
            while (g->held == 0) {
                uint32_t sequence = atomic_load(&g->sequence);
                unlock(&g->lock);
                futex_wait(&g->sequence, sequence);
                lock_waited_for(&g->lock);
            }
            g->held--;
            g->consumed++;
            exclusive(g, me, 0);
            unlock(&g->lock);
        }
        /* The change is one with other cores' changes of the word. */
        atomic_fetch_add(&g->added, 1);
        CHECK(futex(&g->turn, FUTEX_WAKE_OP | FUTEX_PRIVATE, 0, 0, &g->added, add) >= 0);
    }
    meet(g);
    CHECK(g->held == 0 && g->produced == g->consumed);
    CHECK(atomic_load(&g->added) == 2u * (uint32_t)rounds * (uint32_t)g->members);
    return 2 * rounds;
}

/* A semaphore whose waits end after a short time, by every clock, while posts come. */
static long timed(struct group *g, int me) {
    int rounds = times(200);
    long late = 0;
    for (int i = 0; i < rounds; i++) {
        if (me % 2) {
            if (i % 8 == 0) pause_ns(100000);
            atomic_fetch_add(&g->credit, 1);
            CHECK(futex_wake(&g->credit, 1) <= 1);
            continue;
        }
        for (uint32_t there;;) {
            there = atomic_load(&g->credit);
            if (there > 0) {
                if (atomic_compare_exchange_strong(&g->credit, &there, there - 1)) break;
                continue;
            }
            long gave, ns = (me * 7 + i) % 5 * 50000L;
            clockid_t clock = i % 3 == 1 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
            struct timespec until = in_ns(clock, ns), span = {0, ns};
            if (i % 3 == 0) {
                gave = futex(&g->credit, FUTEX_WAIT | FUTEX_PRIVATE, 0, &span, NULL, 0);
            } else {
                int flag = i % 3 == 1 ? 0 : FUTEX_CLOCK_REALTIME;
                gave = futex(&g->credit, FUTEX_WAIT_BITSET | FUTEX_PRIVATE | flag, 0, &until, NULL, FUTEX_MATCH_ANY);
            }
            CHECK(gave == 0 || gave == -EAGAIN || gave == -ETIMEDOUT || gave == -EINTR);
            if (gave == -ETIMEDOUT) CHECK(now_ns(clock) >= until.tv_sec * 1000000000L + until.tv_nsec - 1000000);
            late += gave == -ETIMEDOUT;
        }
    }
    atomic_fetch_add(&timeouts, late);
    meet(g);
    CHECK(atomic_load(&g->credit) == 0);
    return rounds;
}

static long (*const exercises[EXERCISES])(struct group *, int) = {mutexes, conditions, barriers, rwlocks, raw_locks,
                                                                  pairs,   bits,       moved,    both,    timed};
static const char *const names[EXERCISES] = {"mutexes", "conditions", "barriers", "rwlocks", "raw locks",
                                             "pairs",   "bits",       "requeue",  "wake op", "timed"};

static struct group all, groups[MEMBERS_MAX / GROUP];

/* Words to start an exercise with; the locks of the C library go on as they were left. */
static void clear(struct group *g) {
    g->owner = g->held = 0;
    g->inside = g->left = g->right = g->produced = g->consumed = g->here = 0;
    atomic_store(&g->arrived, 0);
    word *words[] = {&g->turn, &g->conductor, &g->lock, &g->sequence, &g->generation, &g->tokens, &g->added, &g->credit};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) atomic_store(words[i], 0);
    for (int i = 0; i < g->members; i++) atomic_store(&g->own[i].value, 0);
}

static void prepare(struct group *g, int members) {
    g->members = members;
    GIVES(0, pthread_mutex_init(&g->mutex, NULL));
    GIVES(0, pthread_cond_init(&g->room, NULL));
    GIVES(0, pthread_cond_init(&g->work, NULL));
    GIVES(0, pthread_rwlock_init(&g->rwlock, NULL));
    GIVES(0, pthread_barrier_init(&g->barrier, NULL, (unsigned)members));
}

static void exercise(struct group *g, int me, int which) {
    meet(g);
    if (me == 0) {
        clear(g);
        doing = names[which];
    }
    meet(g);
    atomic_fetch_add(&operations, exercises[which](g, me));
}

static void *member(void *number) {
    int me = (int)(long)number;
    for (int i = 0; i < EXERCISES; i++) exercise(&all, me, i);
    struct group *mine = &groups[me / GROUP];
    for (int i = 0; i < EXERCISES; i++) exercise(mine, me % GROUP, (i + me / GROUP) % EXERCISES);
    return NULL;
}

static void *watch(void *unused) {
    for (int i = 0; i < limit_s * 10; i++) pause_ns(100000000);
    printf("no end after %d s, at %s, %ld operations\n", limit_s, doing, atomic_load(&operations));
    fflush(stdout);
    _exit(98);
    return unused;
}

static word bed = 5;

static void *sleeps(void *unused) {
    wait_while(&bed, 5);
    return unused;
}

/* Each comparison of FUTEX_WAKE_OP wakes the sleeper at the second word, or lets it sleep. */
static void comparisons(void) {
    static word nobody;
    static const struct { uint32_t compare, with; int wakes; } cases[] = {
        {CMP_EQ, 4, 0}, {CMP_EQ, 5, 1}, {CMP_NE, 5, 0}, {CMP_NE, 4, 1}, {CMP_LT, 5, 0}, {CMP_LT, 6, 1},
        {CMP_LE, 4, 0}, {CMP_LE, 5, 1}, {CMP_GT, 5, 0}, {CMP_GT, 4, 1}, {CMP_GE, 6, 0}, {CMP_GE, 5, 1}};
    pthread_t sleeper = begin(sleeps, 0);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        /* Moved from the word to the same word, the sleeper is counted. */
        while (futex(&bed, FUTEX_REQUEUE | FUTEX_PRIVATE, 0, (void *)1L, &bed, 0) != 1) sched_yield();
        uint32_t op = wake_op(OP_OR, 0, cases[i].compare, cases[i].with);
        GIVES(cases[i].wakes, futex(&nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE, 1, (void *)1L, &bed, op));
    }
    atomic_store(&bed, 6);
    futex_wake(&bed, 1);
    finish(sleeper);
}

/* What is refused, and that waking finds nobody. */
static void refusals(void) {
    static word at, other;
    struct timespec wrong = {0, 1000000000L}, negative = {-1, 0}, none = {0, 0};
    CHECK(futex_wait(&at, 1) == -EAGAIN && futex_wake(&at, 1) == 0);
    CHECK(futex(&at, FUTEX_WAIT | FUTEX_PRIVATE, 0, &wrong, NULL, 0) == -EINVAL);
    CHECK(futex(&at, FUTEX_WAIT | FUTEX_PRIVATE, 0, &negative, NULL, 0) == -EINVAL);
    CHECK(futex(&at, FUTEX_WAIT | FUTEX_PRIVATE, 0, &none, NULL, 0) == -ETIMEDOUT);
    CHECK(futex((word *)((char *)&at + 1), FUTEX_WAIT | FUTEX_PRIVATE, 0, &none, NULL, 0) == -EINVAL);
    CHECK(futex(NULL, FUTEX_WAIT | FUTEX_PRIVATE, 0, &none, NULL, 0) == -EFAULT);
    CHECK(futex((word *)0xffff800000000000UL, FUTEX_WAKE, 1, NULL, NULL, 0) == -EFAULT);
    CHECK(futex(&at, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE, 1, (void *)1L, &other, 5) == -EAGAIN);
    CHECK(futex(&at, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE, 1, (void *)1L, &other, 0) == 0);
    CHECK(futex(&at, 77, 0, NULL, NULL, 0) == -ENOSYS);
    static const struct { uint32_t op, argument, before, after; } changes[] = {
        {OP_SET, 7, 3, 7},   {OP_ADD, 5, 3, 8},   {OP_OR, 4, 3, 7},
        {OP_ANDN, 1, 3, 2},  {OP_XOR, 2, 3, 1},   {OP_OR | OP_SHIFTED, 4, 3, 19},
        {OP_ADD, 0xfff, 3, 2}};
    for (unsigned i = 0; i < sizeof changes / sizeof *changes; i++) {
        atomic_store(&other, changes[i].before);
        uint32_t op = wake_op(changes[i].op, changes[i].argument, CMP_EQ, 3);
        CHECK(futex(&at, FUTEX_WAKE_OP | FUTEX_PRIVATE, 1, (void *)1L, &other, op) == 0);
        CHECK(atomic_load(&other) == changes[i].after);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) threads = atoi(argv[1]);
    if (argc > 2) percent = atoi(argv[2]);
    if (argc > 3) limit_s = atoi(argv[3]);
    CHECK(threads % GROUP == 0 && threads <= MEMBERS_MAX);
    refusals();
    comparisons();
    pthread_detach(begin(watch, 0));
    prepare(&all, threads);
    for (int i = 0; i < threads / GROUP; i++) prepare(&groups[i], GROUP);
    team(threads, member);
    long done = atomic_load(&operations);
    fprintf(stderr, "%ld operations, %ld timeouts\n", done, atomic_load(&timeouts));
    printf("threads %d, a million operations %d, some waits timed out %d\n", threads, done >= 1000000,
           atomic_load(&timeouts) > 0);
    return 0;
}
