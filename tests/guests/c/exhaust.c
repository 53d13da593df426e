/* Makes the kernel keep as much as it can be made to keep, and eats the memory besides. Arguments: what is kept, how
   many threads, and when the memory is eaten: never, before, between (the threads are there and wait for a word), after.
   What is refused must be refused with an error that says so. Prints "held", or what was wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129
#define THREADS_MAX 512
#define STACK_BYTES (16L << 10)
#define FILES_MAX 1000
#define IOVEC_MAX 1024
/* What is read of a mapped file at once. */
#define RUN_BYTES (128L << 10)
/* So often each thread has something read. */
#define ROUNDS 6

static const char *what;
static int empty[2], files[FILES_MAX], file_count;
static struct iovec pieces[IOVEC_MAX];
static char byte, path[4096];
static char *mapped;
static int sparse = -1;
static atomic_int go, at_work, next_run;
static atomic_int bad;

static int is(const char *name) { return strcmp(what, name) == 0; }

/* Whether an error says that there is not enough of something. */
static void check(const char *call, int error) {
    switch (error) {
    case 0: case EAGAIN: case ENOMEM: case ENOBUFS: case EMFILE: case ENFILE: case ENOSPC: return;
    default:
        printf("%s: %s\n", call, strerror(error));
        bad++;
    }
}

/* Keeps the core for a while, so that what was read for others waits. */
static void compute(void) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < 2000000);
}

/* Has something read over and over that no other thread wants, as they all do. */
static long read_much(int own) {
    int ends[2];
    char some[4096];
    if (is("splice") && pipe2(ends, O_NONBLOCK)) return -1;
    for (int round = 0; round < ROUNDS; round++) {
        off_t at = (off_t)(own * ROUNDS + round) * RUN_BYTES;
        if (is("pages")) {
            if (*(volatile char *)(mapped + at + 5 * 4096) != 0) bad++;
            compute();
            if (madvise(mapped + at, RUN_BYTES, MADV_DONTNEED)) return -1;
        } else {
            if (splice(sparse, &at, ends[1], NULL, 64 << 10, 0) < 0) return -1;
            compute();
            while (read(ends[0], some, sizeof some) > 0) {}
        }
    }
    return 0;
}

/* Waits where it keeps the most, until the process ends; goes on waiting with less if that is refused. */
static void *work(void *argument) {
    (void)argument;
    while (!go) syscall(SYS_futex, &go, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    struct pollfd polled[FILES_MAX];
    for (int i = 0; i < file_count; i++) polled[i] = (struct pollfd){.fd = files[i], .events = POLLIN};
    if (!is("pages") && !is("splice")) at_work++;
    long result = 0;
    if (is("readv")) result = readv(empty[0], pieces, IOVEC_MAX);
    if (is("poll")) result = poll(polled, (nfds_t)file_count, -1);
    if (is("select")) {
        fd_set set;
        FD_ZERO(&set);
        for (int i = 0; i < file_count; i++) FD_SET(files[i], &set);
        result = select(FILES_MAX + 10, &set, NULL, NULL, NULL);
    }
    if (is("paths")) {
        for (int i = 0; i < 20; i++)
            if (open(path, O_RDONLY) < 0 && errno != ENOENT && errno != ENAMETOOLONG) check("open", errno);
    }
    if (is("pages") || is("splice")) {
        result = read_much(next_run++);
        at_work++;
    }
    check(what, result < 0 ? errno : 0);
    for (;;) pause();
    return NULL;
}

/* Takes all memory there is, and what it gives back again at the end of a call. */
static void eat(void) {
    for (long bytes = 1L << 20; bytes >= 4096; bytes /= 4) {
        for (int i = 0; i < 4096; i++) {
            void *piece = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (piece == MAP_FAILED) break;
            if (madvise(piece, (size_t)bytes, 23 /* MADV_POPULATE_WRITE */) == 0) continue;
            if (errno != EINVAL && errno != ENOSYS) { munmap(piece, (size_t)bytes); break; }
            munmap(piece, (size_t)bytes);
            piece = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
            if (piece == MAP_FAILED) break;
            unsigned char there[256];
            if (mincore(piece, (size_t)bytes, there) == 0 && !(there[bytes / 4096 - 1] & 1)) break;
        }
    }
}

/* Keeps what no thread is needed for. */
static void keep(void) {
    if (is("readv")) {
        for (int i = 0; i < 64; i++) {
            int ends[2];
            char full[4096] = {1};
            if (pipe2(ends, O_NONBLOCK) != 0) { check("pipe2", errno); break; }
            while (write(ends[1], full, sizeof full) > 0) {}
            check("write", errno);
        }
    }
    if (is("poll") || is("select")) {
        for (; file_count < FILES_MAX; file_count++) {
            files[file_count] = eventfd(0, 0);
            if (files[file_count] < 0) { check("eventfd", errno); break; }
        }
    }
    if (is("sockets")) {
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof name;
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(listener, (void *)&name, sizeof name) || listen(listener, 100)) check("listen", errno);
        getsockname(listener, (void *)&name, &length);
        for (int i = 0; i < 400; i++) {
            static char full[65536];
            int one = socket(AF_INET, SOCK_STREAM, 0);
            if (one < 0 || connect(one, (void *)&name, sizeof name)) { check("connect", errno); break; }
            int other = accept(listener, NULL, NULL);
            if (other < 0) { check("accept", errno); break; }
            while (send(one, full, sizeof full, MSG_DONTWAIT) > 0) {}
            check("send", errno);
        }
    }
    if (is("signals")) {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, NULL);
        for (int i = 0; i < 2000; i++)
            if (sigqueue(getpid(), SIGRTMIN + i % 30, (union sigval){.sival_int = i})) { check("sigqueue", errno); break; }
    }
    if (is("epoll")) {
        for (int i = 0; i < 4; i++) {
            int poller = epoll_create1(0);
            if (poller < 0) { check("epoll_create1", errno); break; }
            for (int j = 0; j < 900; j++) {
                if (i == 0) files[j] = eventfd(0, 0), file_count = j + 1;
                struct epoll_event event = {EPOLLIN, {.fd = j}};
                if (files[j] < 0) { check("eventfd", errno); file_count = j; break; }
                if (epoll_ctl(poller, EPOLL_CTL_ADD, files[j], &event)) { check("epoll_ctl", errno); break; }
                if (j + 1 == file_count && i > 0) break;
            }
        }
    }
    if (is("timers")) {
        for (int i = 0; i < 100; i++) {
            timer_t timer;
            struct itimerspec hour = {.it_value.tv_sec = 3600};
            if (timer_create(CLOCK_MONOTONIC, NULL, &timer)) { check("timer_create", errno); break; }
            timer_settime(timer, 0, &hour, NULL);
        }
    }
    if (is("areas")) {
        long pages = 20000;
        char *at = mmap(NULL, (size_t)pages * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (long i = 0; at != MAP_FAILED && i < pages; i += 2)
            if (mprotect(at + i * 4096, 4096, PROT_NONE)) { check("mprotect", errno); break; }
    }
    if (is("pages") || is("splice")) {
        long bytes = THREADS_MAX * ROUNDS * RUN_BYTES;
        char name[32];
        snprintf(name, sizeof name, "sparse.%d", getpid());
        sparse = open(name, O_RDWR | O_CREAT, 0600);
        unlink(name);
        if (sparse < 0 || ftruncate(sparse, bytes)) check("sparse file", errno);
        mapped = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, sparse, 0);
        if (mapped == MAP_FAILED) { check("mmap", errno); exit(4); }
    }
    if (is("descriptors")) {
        while (dup(0) >= 0) {}
        check("dup", errno);
    }
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    what = argv[1];
    int threads = atoi(argv[2]), made = 0;
    const char *when = argv[3];
    if (pipe(empty)) return 3;
    for (int i = 0; i < IOVEC_MAX; i++) pieces[i] = (struct iovec){&byte, 1};
    memset(path, 'a', 4089);
    for (int i = 0; i < 4089; i += 200) path[i] = '/';
    /* Touched now: it may not be there later. */
    char *stacks = mmap(NULL, THREADS_MAX * STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (stacks == MAP_FAILED) return 4;
    for (long i = 0; i < THREADS_MAX * STACK_BYTES; i += 4096) stacks[i] = 1;
    if (strcmp(when, "before") == 0) eat();
    keep();
    for (; made < threads; made++) {
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stacks + made * STACK_BYTES, STACK_BYTES);
        int error = pthread_create(&thread, &attributes, work, NULL);
        if (error) { check("pthread_create", error); break; }
    }
    if (strcmp(when, "between") == 0) eat();
    go = 1;
    syscall(SYS_futex, &go, FUTEX_WAKE_PRIVATE, THREADS_MAX, NULL, NULL, 0);
    while (at_work < made) sched_yield();
    if (strcmp(when, "after") == 0) eat();
    /* What they do has come as far as it comes. */
    struct timespec moment = {.tv_nsec = 200000000};
    while (nanosleep(&moment, &moment) != 0) {}
    printf("%s\n", bad ? "bad" : "held");
    fflush(stdout);
    _exit(bad ? 1 : 0);
}
