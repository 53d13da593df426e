/* C11's threads: <threads.h> and <stdatomic.h>. What is printed does not depend on who runs when. */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

#define CHECK(condition) do { if (!(condition)) { \
    printf("%s:%d: not true: %s\n", __FILE_NAME__, __LINE__, #condition); \
    fflush(stdout); \
    _Exit(99); } } while (0)

#define THREADS 24
#define ROUNDS 300

static mtx_t plain, timed, recursive;
static cnd_t changed;
static tss_t key;
static once_flag once = ONCE_FLAG_INIT;
static thread_local int mine;
static atomic_int initialised, destroyed, left;
static atomic_flag flag = ATOMIC_FLAG_INIT;
static atomic_ullong added;
static struct pair { uint64_t a, b; } pair;
static long counted, turn;

static void initialise(void) {
    atomic_fetch_add(&initialised, 1);
}

static void destroy(void *value) {
    atomic_fetch_add(&destroyed, *(int *)value);
    free(value);
}

static int counts(void *number) {
    int *value = malloc(sizeof *value);
    *value = (int)(intptr_t)number;
    CHECK(tss_get(key) == NULL && tss_set(key, value) == thrd_success);
    call_once(&once, initialise);
    CHECK(mine == 0);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(mtx_lock(&plain) == thrd_success);
        counted++;
        CHECK(mtx_unlock(&plain) == thrd_success);
        while (atomic_flag_test_and_set_explicit(&flag, memory_order_acquire)) thrd_yield();
        pair.a++;
        pair.b += pair.a;
        atomic_flag_clear_explicit(&flag, memory_order_release);
        atomic_fetch_add_explicit(&added, (unsigned)i, memory_order_relaxed);
        mine++;
    }
    CHECK(mine == ROUNDS && *(int *)tss_get(key) == (int)(intptr_t)number);
    return (int)(intptr_t)number * 2;
}

static int takes_turns(void *number) {
    CHECK(mtx_lock(&plain) == thrd_success);
    for (int i = 0; i < 10; i++) {
        while (turn % THREADS != (intptr_t)number) CHECK(cnd_wait(&changed, &plain) == thrd_success);
        turn++;
        CHECK(cnd_broadcast(&changed) == thrd_success);
    }
    CHECK(mtx_unlock(&plain) == thrd_success);
    thrd_exit(3);
}

static struct timespec soon(long ns) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    now.tv_nsec += ns;
    now.tv_sec += now.tv_nsec / 1000000000L;
    now.tv_nsec %= 1000000000L;
    return now;
}

static int finds_it_locked(void *unused) {
    (void)unused;
    struct timespec until = soon(20000000);
    CHECK(mtx_trylock(&recursive) == thrd_busy);
    CHECK(mtx_timedlock(&timed, &until) == thrd_timedout);
    return 0;
}

static int leaves(void *unused) {
    (void)unused;
    CHECK(thrd_detach(thrd_current()) == thrd_success);
    atomic_fetch_add(&left, 1);
    return 0;
}

int main(void) {
    thrd_t all[THREADS];
    int gave, sum = 0;
    CHECK(mtx_init(&plain, mtx_plain) == thrd_success && mtx_init(&timed, mtx_timed) == thrd_success);
    CHECK(mtx_init(&recursive, mtx_plain | mtx_recursive) == thrd_success);
    CHECK(cnd_init(&changed) == thrd_success && tss_create(&key, destroy) == thrd_success);
    for (intptr_t i = 0; i < THREADS; i++) CHECK(thrd_create(&all[i], counts, (void *)i) == thrd_success);
    for (int i = 0; i < THREADS; i++) {
        CHECK(thrd_join(all[i], &gave) == thrd_success);
        sum += gave;
    }
    printf("counted %ld, added %llu, pair %lu, gave %d, initialised %d, destroyed %d\n", counted,
           (unsigned long long)atomic_load(&added), (unsigned long)pair.b, sum, atomic_load(&initialised),
           atomic_load(&destroyed));
    sum = 0;
    for (intptr_t i = 0; i < THREADS; i++) CHECK(thrd_create(&all[i], takes_turns, (void *)i) == thrd_success);
    for (int i = 0; i < THREADS; i++) {
        CHECK(thrd_join(all[i], &gave) == thrd_success);
        sum += gave;
    }
    printf("turns %ld, gave %d\n", turn, sum);
    CHECK(mtx_lock(&timed) == thrd_success);
    for (int i = 0; i < 4; i++) CHECK(mtx_lock(&recursive) == thrd_success);
    CHECK(thrd_create(&all[0], finds_it_locked, NULL) == thrd_success && thrd_join(all[0], NULL) == thrd_success);
    for (int i = 0; i < 4; i++) CHECK(mtx_unlock(&recursive) == thrd_success);
    struct timespec until = soon(20000000);
    CHECK(cnd_timedwait(&changed, &timed, &until) == thrd_timedout);
    CHECK(mtx_unlock(&timed) == thrd_success);
    for (int i = 0; i < THREADS; i++) CHECK(thrd_create(&all[i], leaves, NULL) == thrd_success);
    while (atomic_load(&left) < THREADS) thrd_sleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    tss_delete(key);
    cnd_destroy(&changed);
    mtx_destroy(&plain);
    puts("all well");
    return 0;
}
