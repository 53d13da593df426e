/* futex(2) itself, and locks made of it that count on every promise it makes. */
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>

/* musl's compiler does not find the kernel's headers. */
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_REQUEUE 3
#define FUTEX_CMP_REQUEUE 4
#define FUTEX_WAKE_OP 5
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAKE_BITSET 10
#define FUTEX_PRIVATE 128
#define FUTEX_CLOCK_REALTIME 256
#define FUTEX_MATCH_ANY 0xffffffffu

/* What FUTEX_WAKE_OP does to the second word, and which old value of it makes it wake there, too. */
enum { OP_SET, OP_ADD, OP_OR, OP_ANDN, OP_XOR, OP_SHIFTED = 8 };
enum { CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE };

static inline uint32_t wake_op(uint32_t op, uint32_t argument, uint32_t compare, uint32_t with) {
    return op << 28 | compare << 24 | (argument & 0xfff) << 12 | (with & 0xfff);
}

typedef _Atomic uint32_t word;

/* What the call gives, or the negative error. */
static inline long futex(word *at, int operation, uint32_t value, const void *time_or_moves, word *other, uint32_t last) {
    long gave = syscall(SYS_futex, at, operation, value, time_or_moves, other, last);
    return gave < 0 ? -errno : gave;
}

static inline long futex_wait(word *at, uint32_t value) {
    return futex(at, FUTEX_WAIT | FUTEX_PRIVATE, value, NULL, NULL, 0);
}

static inline long futex_wake(word *at, int count) {
    return futex(at, FUTEX_WAKE | FUTEX_PRIVATE, (uint32_t)count, NULL, NULL, 0);
}

/* 0: free, 1: locked, 2: locked and perhaps waited for. */
static inline void lock_waited_for(word *lock) {
    while (atomic_exchange(lock, 2) != 0) futex_wait(lock, 2);
}

static inline void lock(word *lock) {
    uint32_t free = 0;
    if (!atomic_compare_exchange_strong(lock, &free, 1)) lock_waited_for(lock);
}

static inline void unlock(word *lock) {
    if (atomic_exchange(lock, 0) == 2) futex_wake(lock, 1);
}

/* Sleeps until the word is another one than this; whoever changes it wakes. */
static inline void wait_while(word *at, uint32_t value) {
    while (atomic_load(at) == value) futex_wait(at, value);
}
