/* Threads that mean harm. Arguments: what, a number.
   "bomb": threads until there may be no more, twice. "spin N": says "spinning" and never ends, N threads on all cores.
   "block": says "blocked", all threads asleep in many ways, and never ends. "unmap-stacks", "unmap-code", "unmap-all":
   takes from the others what they run on. "exit-races SEED": the end of the process comes while threads begin, end,
   fault and wait. "flags": clones that make no sense. "wild": ids to clear, lists of locks and words to sleep at that
   are nowhere. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "team.h"

#include "futex.h"

#define KERNEL 0xffff800000100000UL
#define NOT_CANONICAL 0x0000900000000000UL
#define NOWHERE 0x10000UL

static atomic_int ready, go;

static void *waits_for_go(void *unused) {
    atomic_fetch_add(&ready, 1);
    futex_wake((word *)&ready, 1);
    wait_while((word *)&go, 0);
    return unused;
}

static void bomb(void) {
    static pthread_t all[4096];
    pthread_attr_t attributes;
    GIVES(0, pthread_attr_init(&attributes));
    GIVES(0, pthread_attr_setstacksize(&attributes, 16 << 10));
    for (int round = 0; round < 2; round++) {
        int count = 0, gave;
        atomic_store(&ready, 0);
        atomic_store(&go, 0);
        while (count < 4096 && (gave = pthread_create(&all[count], &attributes, waits_for_go, NULL)) == 0) count++;
        printf("threads %d, then: %s\n", count + 1, strerror(gave));
        for (int now; (now = atomic_load(&ready)) < count;) futex_wait((word *)&ready, (uint32_t)now);
        atomic_store(&go, 1);
        futex_wake((word *)&go, INT_MAX);
        for (int i = 0; i < count; i++) finish(all[i]);
    }
}

static void say(const char *text) {
    puts(text);
    fflush(stdout);
}

static int spinners;

static void *spins(void *number) {
    volatile double heat = 1;
    atomic_fetch_add(&ready, 1);
    /* Not the first thread, if there are others: its core is also the kernel's. */
    if ((long)number == spinners - 1) {
        while (atomic_load(&ready) < spinners) sched_yield();
        say("spinning");
    }
    for (;;) heat = heat * 1.000001 + (double)(long)number;
    return number;
}

static void spin(int threads) {
    spinners = threads;
    for (int i = 1; i < threads; i++) begin(spins, i);
    spins(NULL);
}

static void *blocks(void *number) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    static word zero;
    char byte;
    int ends[2];
    struct epoll_event event;
    struct timespec long_time = {1000000, 0};
    atomic_fetch_add(&ready, 1);
    switch ((long)number % 10) {
    case 0: pthread_mutex_lock(&mutex); for (;;) pthread_cond_wait(&never, &mutex);
    case 1: for (;;) futex_wait(&zero, 0);
    case 2: for (;;) nanosleep(&long_time, NULL);
    case 3: CHECK(pipe(ends) == 0); read(ends[0], &byte, 1); break;
    case 4: CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0); recv(ends[0], &byte, 1, 0); break;
    case 5: poll(NULL, 0, -1); break;
    case 6: epoll_wait(epoll_create1(0), &event, 1, -1); break;
    case 7: read(eventfd(0, 0), ends, 8); break;
    case 8: pause(); break;
    default: for (;;) sched_yield();
    }
    return NULL;
}

static void block(int threads) {
    for (int i = 0; i < threads; i++) begin(blocks, i);
    while (atomic_load(&ready) < threads) sched_yield();
    pause_ns(20000000);
    say("blocked");
    for (;;) pause();
}

static long recurses(long depth) {
    volatile char page[2048];
    page[0] = (char)depth;
    if (depth > 0) return recurses(depth - 1) + page[0];
    atomic_fetch_add(&ready, 1);
    while (!atomic_load(&go)) page[1024]++;
    return page[0];
}

static char *stack_of_one;

static void *tells_stack(void *unused) {
    char here;
    __atomic_store_n(&stack_of_one, &here, __ATOMIC_SEQ_CST);
    recurses(4);
    return unused;
}

static void unmap(const char *what) {
    for (int i = 0; i < 8; i++) begin(tells_stack, 0);
    while (atomic_load(&ready) < 8) sched_yield();
    say(what);
    if (strcmp(what, "unmap-stacks") == 0) {
        unsigned long top = ((unsigned long)stack_of_one | 0xfffff) + 1;
        CHECK(munmap((void *)(top - (1 << 20)), 1 << 20) == 0);
        for (;;) pause();
    }
    if (strcmp(what, "unmap-code") == 0) {
        unsigned long code = (unsigned long)unmap & ~0xfffffUL;
        munmap((void *)code, 2 << 20);
    } else {
        munmap((void *)0x1000, (1UL << 47) - 0x2000);
    }
}

static unsigned long random_of(unsigned long *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void *at_once(void *unused) {
    return unused;
}

static void *makes_threads(void *unused) {
    for (pthread_t thread;;)
        if (pthread_create(&thread, NULL, at_once, NULL) == 0) pthread_join(thread, NULL);
    return unused;
}

static void *faults(void *unused) {
    for (;;) {
        volatile char *memory = mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int i = 0; i < 64 << 10; i += 4096) memory[i] = 1;
        munmap((void *)memory, 64 << 10);
    }
    return unused;
}

static void *opens(void *unused) {
    for (;;) {
        int file = open("/proc/self/status", O_RDONLY), other = open("exit-races-file", O_CREAT | O_RDWR, 0600);
        if (write(other, "some text", 9) != 9) CHECK(errno);
        close(file);
        close(other);
    }
    return unused;
}

static void *ends(void *seed) {
    unsigned long state = (unsigned long)seed * 0x9e3779b97f4a7c15UL + 1;
    for (unsigned long i = random_of(&state) % 4000; i > 0; i--) {
        if (i % 64 == 0) sched_yield();
        else __asm__ volatile("pause");
    }
    _exit(46);
}

static void exit_races(long seed) {
    begin(makes_threads, 0);
    begin(makes_threads, 0);
    begin(faults, 0);
    begin(faults, 0);
    begin(opens, 0);
    for (int i = 0; i < 10; i++) begin(blocks, i);
    /* Several may want the end at the same moment. */
    begin(ends, seed);
    begin(ends, seed + (seed % 2 ? 0 : 1000));
    for (;;) pause();
}

#define VM_ 0x100UL
#define FS_ 0x200UL
#define FILES_ 0x400UL
#define SIGHAND_ 0x800UL
#define THREAD_ 0x10000UL
#define NEWNS_ 0x20000UL
#define SETTLS_ 0x80000UL
#define NEWUSER_ 0x10000000UL
#define NEWPID_ 0x20000000UL
#define ALL_ (VM_ | FS_ | FILES_ | SIGHAND_ | THREAD_)

static void flags(void) {
    static char stack[8192] __attribute__((aligned(16)));
    static const struct { unsigned long flags, tls; } wrong[] = {
        {THREAD_, 0},          {THREAD_ | VM_, 0},   {THREAD_ | SIGHAND_, 0},   {ALL_ | NEWUSER_, 0},
        {ALL_ | NEWPID_, 0},   {ALL_ | NEWNS_, 0},   {ALL_ | SETTLS_, KERNEL}, {ALL_ | SETTLS_, NOT_CANONICAL}};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        long gave = syscall(SYS_clone, wrong[i].flags, stack + sizeof stack, NULL, NULL, wrong[i].tls);
        printf("clone %lx: %s\n", wrong[i].flags, gave < 0 ? strerror(errno) : "made");
    }
    CHECK(finish(begin(at_once, 5)) == 5);
}

static word read_only_like;
static struct list { struct list *next; } circle[3];
static struct head { struct list *first; long offset; struct list *pending; } heads[8];

static void *leaves_wildly(void *number) {
    static char *page;
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    if (!page) page = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_mutex_unlock(&once);
    void *ids[] = {(void *)NOWHERE, (void *)KERNEL, (void *)NOT_CANONICAL, (void *)1, page, page + 1, (void *)-4L, NULL};
    long which = (long)number % 8;
    if ((long)number < 8) {
        CHECK(syscall(SYS_set_tid_address, ids[which]) == gettid());
    } else {
        for (int i = 0; i < 3; i++) circle[i].next = &circle[(i + 1) % 3];
        struct head wild[] = {{(void *)NOWHERE, 0, NULL},        {(void *)KERNEL, 0, (void *)KERNEL},
                              {&circle[0], 1L << 46, NULL},      {&circle[0], 3, &circle[1]},
                              {(void *)page, 0, (void *)page},   {(void *)-8L, -8, (void *)1},
                              {(void *)NOT_CANONICAL, 0, NULL},  {&circle[0], (char *)&read_only_like - (char *)circle, NULL}};
        heads[which] = wild[which];
        CHECK(syscall(SYS_set_robust_list, which == 3 ? (void *)KERNEL : &heads[which], sizeof(struct head)) == 0);
        CHECK(syscall(SYS_set_robust_list, &heads[which], 23) == -1 && errno == EINVAL);
    }
    atomic_fetch_add(&ready, 1);
    /* Not pthread_exit, which would wait for what was taken from it. */
    syscall(SYS_exit, 0);
    return NULL;
}

static void wild(void) {
    static const unsigned long places[] = {NOWHERE, KERNEL, NOT_CANONICAL, 0, 2, -4UL};
    struct timespec none = {0, 0};
    static word at;
    for (int i = 0; i < 16; i++) begin(leaves_wildly, i);
    while (atomic_load(&ready) < 16) sched_yield();
    pause_ns(20000000);
    CHECK(finish(begin(at_once, 5)) == 5);
    puts("left wildly");
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        word *place = (word *)places[i];
        const char *names[8];
        long gave[] = {futex(place, FUTEX_WAIT | FUTEX_PRIVATE, 0, &none, NULL, 0),
                       futex(place, FUTEX_WAIT, 0, &none, NULL, 0),
                       futex(place, FUTEX_WAKE, 1, NULL, NULL, 0),
                       futex(&at, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE, 1, (void *)1L, place, 0),
                       futex(place, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE, 1, (void *)1L, &at, 0),
                       futex(&at, FUTEX_WAKE_OP | FUTEX_PRIVATE, 1, (void *)1L, place, wake_op(OP_SET, 0, CMP_EQ, 0)),
                       places[i] ? futex(&at, FUTEX_WAIT | FUTEX_PRIVATE, 0, (void *)places[i], NULL, 0) : 0};
        for (int call = 0; call < 7; call++) {
            /* Waking one's own word somewhere is no error on either system: nobody can be there. */
            names[call] = gave[call] < 0 ? strerror((int)-gave[call]) : "none";
            if (call == 3 || (call == 2 && places[i] < 4)) continue;
            printf("%lx %d: %s\n", places[i], call, names[call]);
        }
        if (places[i] == KERNEL) puts("-");
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : 8;
    if (strcmp(what, "bomb") == 0) bomb();
    else if (strcmp(what, "spin") == 0) spin(number);
    else if (strcmp(what, "block") == 0) block(number);
    else if (strncmp(what, "unmap-", 6) == 0) unmap(what);
    else if (strcmp(what, "exit-races") == 0) exit_races(number);
    else if (strcmp(what, "flags") == 0) flags();
    else if (strcmp(what, "wild") == 0) wild();
    else return 1;
    return 0;
}
