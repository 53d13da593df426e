/* Threads that wait in many ways, timers, and signals that nobody takes. */
#include "common.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* All that a waiting thread needs: its words lie elsewhere. */
#define STACK_BYTES 8192
#define PIECES 1024
#define POLLED 1000
#define PATH_BYTES 4089

/* The C library has no header for this call. */
#define FUTEX_WAIT 0

static struct iovec pieces[PIECES];
static char piece_bytes[PIECES];
static struct pollfd polled[POLLED];
static char path[PATH_BYTES + 1];
static int empty_pipe[2] = {-1, -1}, empty_pair[2] = {-1, -1}, nobody = -1, poller = -1;
static atomic_int never;

static void *waits(void *way) {
    sigset_t all;
    struct timespec long_time = {1000000, 0};
    struct epoll_event event;
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = PIECES};
    sigemptyset(&all);
    sigaddset(&all, SIGUSR2);
    if (strcmp(way, "futex") == 0) syscall(SYS_futex, &never, FUTEX_WAIT, 0, NULL, NULL, 0);
    if (strcmp(way, "readv") == 0) (void)!readv(empty_pipe[0], pieces, PIECES);
    if (strcmp(way, "poll") == 0) poll(polled, POLLED, -1);
    if (strcmp(way, "sigwait") == 0) syscall(SYS_rt_sigtimedwait, &all, NULL, NULL, 8);
    if (strcmp(way, "sleep") == 0) nanosleep(&long_time, NULL);
    if (strcmp(way, "epoll") == 0) epoll_wait(poller, &event, 1, -1);
    if (strcmp(way, "recvmsg") == 0) recvmsg(empty_pair[0], &message, 0);
    if (strcmp(way, "accept") == 0) accept(nobody, NULL, NULL);
    if (strcmp(way, "stdin") == 0) (void)!readv(0, pieces, PIECES);
    for (int i = 0; strcmp(way, "open") == 0 && i < 8; i++) close(open(path, O_RDONLY));
    for (int i = 0; strcmp(way, "maps") == 0 && i < 64; i++) {
        void *area = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (area != MAP_FAILED) munmap(area, 65536);
    }
    for (;;) pause();
    return NULL;
}

/* What the waits wait for. */
static void ready_for_waits(void) {
    for (int i = 0; i < PIECES; i++) pieces[i] = (struct iovec){&piece_bytes[i], 1};
    /* What is never there: nobody asks whether the rest is. */
    for (int i = 0; i < POLLED; i++) polled[i] = (struct pollfd){kept_count ? kept[i % kept_count] : -1, POLLPRI, 0};
    for (int i = 0; i < PATH_BYTES; i++) path[i] = i % 2 ? '/' : '.';
    if (empty_pipe[0] >= 0) return;
    (void)!pipe(empty_pipe);
    socketpair(AF_UNIX, SOCK_STREAM, 0, empty_pair);
    nobody = socket(AF_INET, SOCK_STREAM, 0);
    if (nobody >= 0) listen(nobody, 1);
    poller = epoll_create1(0);
}

static void make_threads(int count, const char *way) {
    ready_for_waits();
    size_t bytes = (size_t)count * STACK_BYTES;
    char *stacks = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) return;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        pthread_attr_setstack(&attributes, stacks + (size_t)i * STACK_BYTES, STACK_BYTES);
        if (pthread_create(&thread, &attributes, waits, (void *)way) != 0) return;
    }
}

static void make_timers(int count, const char *way) {
    int processor = strcmp(way, "processor") == 0, often = strcmp(way, "often") == 0;
    struct itimerspec time = {{0, often ? 100000 : 0}, {often ? 0 : 1000, 100000}};
    for (int i = 0; i < count; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1 + i % 20};
        timer_t timer;
        if (timer_create(processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &event, &timer) != 0) return;
        timer_settime(timer, 0, &time, NULL);
    }
}

static void make_signals(int count, const char *way) {
    for (int i = 0; i < count; i++) {
        int number = SIGRTMIN + 1 + i % 20;
        union sigval value = {.sival_int = i};
        int to_thread = strcmp(way, "thread") == 0;
        if ((to_thread ? pthread_kill(pthread_self(), number) : sigqueue(getpid(), number, value)) != 0) return;
    }
}
