/* Threads that do everything a node does for a program, for ever: sleep and wake, fault, map, make files and threads,
   talk over sockets and pipes. Says "busy" when all of them are, and goes on until somebody ends it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "team.h"

#include "futex.h"

static atomic_int busy;
static word ball[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long turn;
static char data[64][4096] = {{1}};

/* Two threads wake each other. */
static void *passes(void *side) {
    long me = (long)side;
    atomic_fetch_add(&busy, 1);
    for (uint32_t round = 0;; round++) {
        if (me == 1) wait_while(&ball[1], round);
        atomic_fetch_add(&ball[!me], 1);
        futex_wake(&ball[!me], 1);
        if (me == 0) wait_while(&ball[0], round);
    }
    return NULL;
}

/* Three wait for their turn, with a limit. */
static void *takes_turns(void *number) {
    atomic_fetch_add(&busy, 1);
    pthread_mutex_lock(&mutex);
    for (;;) {
        struct timespec soon = in_ns(CLOCK_REALTIME, 1000000);
        if (turn % 3 != (long)number) pthread_cond_timedwait(&changed, &mutex, &soon);
        else turn++;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

/* New pages, pages of the program, and changes of what others use. */
static void *faults(void *number) {
    atomic_fetch_add(&busy, 1);
    for (long round = 0;; round++) {
        long bytes = round % 16 == 0 ? 4 << 20 : 64 << 10;
        volatile char *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(memory != MAP_FAILED);
        for (long at = 0; at < 64 << 10; at += 4096) memory[at] = 1;
        data[(round + (long)number) % 64][round % 4096]++;
        mprotect((void *)memory, 32 << 10, PROT_READ);
        madvise((void *)(memory + (32 << 10)), 32 << 10, MADV_DONTNEED);
        munmap((void *)memory, (size_t)bytes);
    }
    return NULL;
}

/* Files of the I/O node and of the node. */
static void *files(void *number) {
    char name[64], shared[64], text[4096] = "text";
    struct stat status;
    snprintf(name, sizeof name, "busy-%d-%ld", getpid(), (long)number);
    snprintf(shared, sizeof shared, "/dev/shm/busy-%ld", (long)number);
    for (int round = 0;; round++) {
        int file = open(round % 2 ? name : shared, O_CREAT | O_RDWR, 0600);
        CHECK(file >= 0);
        if (write(file, text, sizeof text) != sizeof text || pread(file, text, 100, 50) != 100) CHECK(errno == 0);
        CHECK(fstat(file, &status) == 0);
        close(file);
        if (round % 4 == 3) {
            unlink(name);
            unlink(shared);
        }
        if (round == 0) atomic_fetch_add(&busy, 1);
    }
    return NULL;
}

/* A connection to itself, datagrams, a pipe. */
static void *talks(void *number) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}, to;
    socklen_t length = sizeof here;
    int listener = socket(AF_INET, SOCK_STREAM, 0), ends[2];
    char text[2048] = "text";
    CHECK(listener >= 0 && bind(listener, (void *)&here, sizeof here) == 0 && listen(listener, 4) == 0);
    CHECK(getsockname(listener, (void *)&to, &length) == 0);
    CHECK(pipe(ends) == 0);
    for (int round = 0;; round++) {
        int out = socket(AF_INET, SOCK_STREAM, 0), in;
        if (out < 0 || connect(out, (void *)&to, sizeof to) != 0 || (in = accept(listener, NULL, NULL)) < 0) {
            CHECK(errno == EADDRNOTAVAIL || errno == ENOBUFS || errno == ECONNREFUSED || errno == EMFILE);
            close(out);
            continue;
        }
        for (int i = 0; i < 8; i++) {
            CHECK(write(out, text, sizeof text) == sizeof text);
            CHECK(recv(in, text, sizeof text, MSG_WAITALL) == sizeof text);
            CHECK(write(ends[1], text, sizeof text) == sizeof text && read(ends[0], text, sizeof text) == sizeof text);
        }
        close(in);
        close(out);
        if (round == 0) atomic_fetch_add(&busy, 1);
    }
    return number;
}

static void *ends_at_once(void *unused) {
    return unused;
}

static void *makes(void *unused) {
    atomic_fetch_add(&busy, 1);
    for (;;) {
        finish(begin(ends_at_once, 0));
        pause_ns(100000);
    }
    return unused;
}

static void *spins(void *unused) {
    atomic_fetch_add(&busy, 1);
    for (;;) atomic_signal_fence(memory_order_seq_cst);
    return unused;
}

int main(void) {
    int threads = 0;
    for (long i = 0; i < 2; i++, threads++) begin(passes, i);
    for (long i = 0; i < 3; i++, threads++) begin(takes_turns, i);
    for (long i = 0; i < 2; i++, threads++) begin(faults, i);
    for (long i = 0; i < 2; i++, threads++) begin(files, i);
    for (long i = 0; i < 2; i++, threads++) begin(talks, i);
    begin(makes, 0);
    begin(spins, 0);
    threads += 2;
    while (atomic_load(&busy) < threads) sched_yield();
    puts("busy");
    fflush(stdout);
    for (;;) pause();
}
