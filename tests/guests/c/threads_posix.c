/* The lives of POSIX threads: made, joined, detached, named, placed, and how a process with several ends.
   Without an argument all that ends well; with one, one way to end: "main-leaves", "status", "last-leaves", "return",
   "abort". What is printed does not depend on who runs when. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "team.h"

#include "futex.h"

#define THREADS 64

static void *square(void *number) {
    return (void *)((long)number * (long)number);
}

static void *touch_stack(void *number) {
    /* Deep in the 8 MiB, so that two stacks that overlap are seen. */
    volatile char deep[6 << 20];
    memset((char *)deep, (int)(long)number, 4096);
    deep[sizeof deep - 1] = (char)(long)number;
    for (int i = 0; i < 20; i++) sched_yield();
    for (int i = 0; i < 4096; i++) CHECK(deep[i] == (char)(long)number);
    CHECK(deep[sizeof deep - 1] == (char)(long)number);
    return NULL;
}

static void made_and_joined(void) {
    printf("squares %ld\n", team(THREADS, square));
    pthread_attr_t attributes;
    pthread_t all[THREADS];
    GIVES(0, pthread_attr_init(&attributes));
    GIVES(0, pthread_attr_setstacksize(&attributes, 8 << 20));
    for (long i = 0; i < THREADS; i++) GIVES(0, pthread_create(&all[i], &attributes, touch_stack, (void *)i));
    for (int i = 0; i < THREADS; i++) finish(all[i]);
    /* One after the other, many more than there may be at once. */
    long sum = 0;
    for (long i = 0; i < 1000; i++) sum += finish(begin(square, i % 10));
    printf("one after the other %ld\n", sum);
    pthread_attr_destroy(&attributes);
}

static pid_t numbers[THREADS];

static void *take_number(void *number) {
    numbers[(long)number] = gettid();
    CHECK(getpid() != gettid());
    return NULL;
}

static void numbered(void) {
    CHECK(gettid() == getpid());
    pthread_t all[THREADS];
    for (long i = 0; i < THREADS; i++) all[i] = begin(take_number, i);
    for (int i = 0; i < THREADS; i++) finish(all[i]);
    for (int i = 0; i < THREADS; i++) CHECK(numbers[i] > 0);
    puts("numbers are the threads' own");
}

static atomic_int detached_done;

static void *detached(void *number) {
    if ((long)number % 2) GIVES(0, pthread_detach(pthread_self()));
    atomic_fetch_add(&detached_done, 1);
    return NULL;
}

static void on_own_stack(void) {
    /* A stack of the program's, and one detached from the start. */
    size_t bytes = 256 << 10, size;
    void *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at;
    CHECK(stack != MAP_FAILED);
    pthread_attr_t attributes;
    pthread_t thread;
    GIVES(0, pthread_attr_init(&attributes));
    GIVES(0, pthread_attr_setstack(&attributes, stack, bytes));
    GIVES(0, pthread_attr_getstack(&attributes, &at, &size));
    CHECK(at == stack && size == bytes);
    GIVES(0, pthread_create(&thread, &attributes, square, (void *)12L));
    CHECK(finish(thread) == 144);
    munmap(stack, bytes);
    pthread_attr_destroy(&attributes);
    GIVES(0, pthread_attr_init(&attributes));
    GIVES(EINVAL, pthread_attr_setstacksize(&attributes, 100));
    GIVES(0, pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
    GIVES(0, pthread_attr_setguardsize(&attributes, 64 << 10));
    for (long i = 0; i < 32; i++) {
        if (i % 2) begin(detached, i);
        else GIVES(0, pthread_create(&thread, &attributes, detached, (void *)i));
    }
    while (atomic_load(&detached_done) < 32) sched_yield();
    pthread_attr_destroy(&attributes);
    puts("detached 32");
}

static __thread long local = 7;
static __thread char large[40000];
static pthread_key_t keys[8];
static atomic_long destroyed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int initialised;

static void destroy(void *value) {
    atomic_fetch_add(&destroyed, (long)value);
}

static void initialise(void) {
    pause_ns(2000000);
    atomic_fetch_add(&initialised, 1);
}

static void *own_variables(void *number) {
    long mine = (long)number + 1;
    CHECK(local == 7 && large[39999] == 0);
    local = mine;
    large[39999] = (char)mine;
    for (int i = 0; i < 8; i++) {
        CHECK(pthread_getspecific(keys[i]) == NULL);
        GIVES(0, pthread_setspecific(keys[i], (void *)mine));
    }
    pthread_once(&once, initialise);
    CHECK(atomic_load(&initialised) == 1);
    for (int i = 0; i < 100; i++) {
        sched_yield();
        CHECK(local == mine && large[39999] == (char)mine);
        CHECK(pthread_getspecific(keys[i % 8]) == (void *)mine);
    }
    errno = (int)mine;
    sched_yield();
    CHECK(errno == mine);
    return NULL;
}

static void own(void) {
    for (int i = 0; i < 8; i++) GIVES(0, pthread_key_create(&keys[i], i < 4 ? destroy : NULL));
    team(THREADS, own_variables);
    CHECK(local == 7);
    printf("destructors %ld, initialised %d\n", atomic_load(&destroyed), atomic_load(&initialised));
    for (int i = 0; i < 8; i++) GIVES(0, pthread_key_delete(keys[i]));
}

static void *named(void *number) {
    char mine[16], name[16];
    snprintf(mine, sizeof mine, "worker %ld", (long)number);
    GIVES(0, pthread_setname_np(pthread_self(), mine));
    for (int i = 0; i < 20; i++) sched_yield();
    CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, mine) == 0);
    return NULL;
}

static void *placed(void *unused) {
    (void)unused;
    cpu_set_t all, one;
    GIVES(0, pthread_getaffinity_np(pthread_self(), sizeof all, &all));
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &all)) continue;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        GIVES(0, pthread_setaffinity_np(pthread_self(), sizeof one, &one));
        for (int i = 0; i < 10; i++) {
            CHECK(sched_getcpu() == core);
            sched_yield();
        }
        cpu_set_t now;
        CHECK(sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &one));
    }
    CPU_ZERO(&one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == -1 && errno == EINVAL);
    GIVES(0, pthread_setaffinity_np(pthread_self(), sizeof all, &all));
    return NULL;
}

static void named_and_placed(void) {
    char name[16], long_name[] = "a name that is too long";
    team(16, named);
    GIVES(ERANGE, pthread_setname_np(pthread_self(), long_name));
    GIVES(0, pthread_setname_np(pthread_self(), "first"));
    CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "first") == 0);
    team(16, placed);
    cpu_set_t set;
    CHECK(sched_getaffinity(getpid(), sizeof set, &set) == 0);
    CHECK(CPU_COUNT(&set) == sysconf(_SC_NPROCESSORS_ONLN));
    puts("named and placed");
}

/* What a thread finds that the C library does not prepare. */
struct bare {
    word alive;
    uint64_t mask;
    cpu_set_t cores;
    long gave[2];
};

static int bare_thread(void *memory) {
    struct bare *mine = memory;
    struct timespec while_others_wait = {0, 20000000};
    mine->gave[0] = syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &mine->mask, sizeof mine->mask);
    mine->gave[1] = syscall(SYS_sched_getaffinity, 0, sizeof mine->cores, &mine->cores);
    syscall(SYS_nanosleep, &while_others_wait, NULL);
    return 0;
}

/* It has its maker's mask and cores. Its end is announced in memory that others could show: there one waits as they
   would. */
static void without_library(void) {
    static char stack[1 << 14] __attribute__((aligned(16)));
    cpu_set_t all, one;
    sigset_t blocked, before;
    struct bare *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED && sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    for (int core = 0; CPU_COUNT(&one) == 0; core++)
        if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    GIVES(0, pthread_sigmask(SIG_BLOCK, &blocked, &before));
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    atomic_store(&shared->alive, 1);
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    int tid = clone(bare_thread, stack + sizeof stack, flags, shared, NULL, NULL, &shared->alive);
    CHECK(tid > 0 && syscall(SYS_tgkill, getpid(), tid, 0) == 0);
    struct timespec limit = {60, 0};
    while (atomic_load(&shared->alive)) CHECK(futex(&shared->alive, FUTEX_WAIT, 1, &limit, NULL, 0) != -ETIMEDOUT);
    /* Linux lets go of it a moment after that was announced. */
    long until_ns = now_ns(CLOCK_MONOTONIC) + 60000000000L;
    while (syscall(SYS_tgkill, getpid(), tid, 0) == 0) CHECK(now_ns(CLOCK_MONOTONIC) < until_ns);
    CHECK(errno == ESRCH);
    CHECK(shared->gave[0] == 0 && shared->mask == 1u << (SIGUSR2 - 1));
    CHECK(shared->gave[1] > 0 && CPU_EQUAL(&shared->cores, &one));
    CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
    GIVES(0, pthread_sigmask(SIG_SETMASK, &before, NULL));
    puts("without the library");
}

/* What is shared: files, the directory, memory that one maps and another uses. */
static void *shares(void *number) {
    int file = (int)(long)number;
    lseek(file, 0, SEEK_SET);
    CHECK(write(file, "written by another thread\n", 26) == 26);
    CHECK(chdir("/") == 0);
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(page, "mapped by another thread");
    return page;
}

static void shared(void) {
    char text[64] = "", here[64];
    int file = open("threads-file", O_CREAT | O_RDWR | O_TRUNC, 0600);
    CHECK(file >= 0 && unlink("threads-file") == 0);
    char *page = (char *)finish(begin(shares, file));
    CHECK(pread(file, text, 63, 0) == 26);
    CHECK(getcwd(here, sizeof here) && strcmp(here, "/") == 0);
    printf("%s%s\n", text, page);
    CHECK(munmap(page, 4096) == 0);
}

static atomic_int spinning;

static void *sleeps(void *unused) {
    for (;;) pause();
    return unused;
}

static void *reads(void *from) {
    char byte;
    CHECK(read((int)(long)from, &byte, 1) == 1);
    return NULL;
}

static void *spins(void *unused) {
    atomic_fetch_add(&spinning, 1);
    for (;;) atomic_signal_fence(memory_order_seq_cst);
    return unused;
}

static void *leaves_last(void *main_thread) {
    if (main_thread) finish((pthread_t)main_thread);
    pause_ns(10000000);
    puts("last of all");
    return NULL;
}

static void *ends_all(void *unused) {
    (void)unused;
    while (atomic_load(&spinning) < 3) sched_yield();
    exit(43);
}

static void *aborts(void *unused) {
    (void)unused;
    while (atomic_load(&spinning) < 3) sched_yield();
    abort();
}

static int end(const char *how) {
    puts(how);
    fflush(stdout);
    if (strcmp(how, "main-leaves") == 0) {
        begin(leaves_last, (long)pthread_self());
        pthread_exit((void *)5L);
    }
    if (strcmp(how, "last-leaves") == 0) {
        /* Not the first, but the last one makes the end; the status is 0. */
        for (int i = 0; i < 8; i++) begin(square, i);
        begin(leaves_last, 0);
        pthread_exit(NULL);
    }
    int ends[2];
    CHECK(pipe(ends) == 0);
    for (int i = 0; i < 8; i++) begin(sleeps, i);
    for (int i = 0; i < 3; i++) begin(spins, i);
    for (int i = 0; i < 3; i++) begin(reads, ends[0]);
    if (strcmp(how, "return") == 0) return 44;
    if (strcmp(how, "abort") == 0) begin(aborts, 0);
    else begin(ends_all, 0);
    for (;;) pause();
}

int main(int argc, char **argv) {
    if (argc > 1) return end(argv[1]);
    made_and_joined();
    numbered();
    on_own_stack();
    own();
    named_and_placed();
    without_library();
    shared();
    puts("all well");
    return 0;
}
