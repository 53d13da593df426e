/* A signal during every call that waits: it fails with EINTR or goes on, as with Linux. Prints what the host prints.
 *
 * A timer interrupts each call again and again. From its second time on the handler lets the call come to its end, for
 * those that are made again. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* musl's compiler does not find the kernel's headers. */
#define FUTEX_WAIT_PRIVATE 128

static int in, out, full_in, full_out, pair[2], listening, counter, poller, datagrams;
static uint32_t word;
static volatile int times;
static void (*volatile relief)(void);
static struct sockaddr_in name = {.sin_family = AF_INET};

static void handler(int signal) {
    int saved = errno;
    if (++times >= 2 && relief) relief();
    errno = saved;
}

static void feed_pipe(void) { if (write(out, "x", 1) != 1) abort(); }
static void feed_pair(void) { if (write(pair[1], "x", 1) != 1) abort(); }
static void feed_counter(void) { uint64_t one = 1; if (write(counter, &one, 8) != 8) abort(); }
static void feed_datagrams(void) {
    static int sender = -1;
    if (sender < 0) sender = socket(AF_INET, SOCK_DGRAM, 0);
    if (sendto(sender, "x", 1, 0, (struct sockaddr *)&name, sizeof name) != 1) abort();
}
static void drain_pipe(void) {
    static char room[1 << 16];
    struct pollfd there = {full_in, POLLIN};
    /* On a slow machine the timer may be up again before the call goes on. */
    if (poll(&there, 1, 0) > 0 && read(full_in, room, sizeof room) < 1) abort();
}
static void connect_to_us(void) {
    static int done;
    if (done++) return;
    struct sockaddr_in to;
    socklen_t length = sizeof to;
    getsockname(listening, (struct sockaddr *)&to, &length);
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    fcntl(peer, F_SETFL, O_NONBLOCK);
    connect(peer, (struct sockaddr *)&to, length);
}
static void change_word(void) { word = 1; }

static void set_timer(long us) {
    struct itimerval often = {{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &often, NULL);
}

static void show(const char *what, int flags, long result, int failed) {
    printf("%s%s: %ld", what, flags & SA_RESTART ? ", restarting" : "", result < 0 ? -1L : result);
    printf(" %d\n", result < 0 ? failed : 0);
}

#define CALL(what, eases, code)                                                   \
    for (int flags = 0;; flags = SA_RESTART) {                                    \
        struct sigaction action = {.sa_handler = handler, .sa_flags = flags};     \
        sigaction(SIGALRM, &action, NULL);                                        \
        times = 0;                                                                \
        relief = flags ? eases : NULL;                                            \
        set_timer(20000);                                                         \
        errno = 0;                                                                \
        long result = (code);                                                     \
        int failed = errno;                                                       \
        set_timer(0);                                                             \
        relief = NULL;                                                            \
        show(what, flags, result, failed);                                        \
        empty();                                                                  \
        if (flags) break;                                                         \
    }

static void empty(void) {
    char room[64];
    struct pollfd fds[] = {{in, POLLIN}, {pair[0], POLLIN}, {counter, POLLIN}, {datagrams, POLLIN}};
    while (poll(fds, 4, 0) > 0)
        for (int i = 0; i < 4; i++)
            if (fds[i].revents && read(fds[i].fd, room, sizeof room) < 0) abort();
}

static long plain_futex(struct timespec *limit) { return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, limit, NULL, 0); }

static fd_set *of(fd_set *set) {
    FD_ZERO(set);
    FD_SET(in, set);
    return set;
}

static char large[1 << 18];

int main(int argc, char **argv) {
    int ends[2];
    socklen_t length = sizeof name;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (pipe(ends)) return 1;
    in = ends[0], out = ends[1];
    if (pipe(ends)) return 1;
    full_in = ends[0], full_out = ends[1];
    fcntl(full_out, F_SETFL, O_NONBLOCK);
    while (write(full_out, large, 4096) > 0) {}
    fcntl(full_out, F_SETFL, 0);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
    counter = eventfd(0, 0);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listening = socket(AF_INET, SOCK_STREAM, 0);
    bind(listening, (struct sockaddr *)&name, sizeof name);
    listen(listening, 5);
    datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    bind(datagrams, (struct sockaddr *)&name, sizeof name);
    getsockname(datagrams, (struct sockaddr *)&name, &length);
    poller = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(poller, EPOLL_CTL_ADD, in, &event);

    char byte;
    uint64_t value;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    CALL("read of a pipe", feed_pipe, read(in, &byte, 1));
    CALL("readv of a pipe", feed_pipe, readv(in, &vector, 1));
    CALL("read of a pair", feed_pair, read(pair[0], &byte, 1));
    CALL("recv", feed_pair, recv(pair[0], &byte, 1, 0));
    CALL("recvmsg", feed_pair, recvmsg(pair[0], &message, 0));
    CALL("recvfrom of datagrams", feed_datagrams, recvfrom(datagrams, &byte, 1, 0, NULL, NULL));
    CALL("read of a counter", feed_counter, read(counter, &value, 8));
    CALL("write to a full pipe", drain_pipe, write(full_out, large, 4096));
    while (fcntl(full_out, F_SETFL, O_NONBLOCK), write(full_out, large, 4096) > 0) {}
    fcntl(full_out, F_SETFL, 0);
    CALL("accept", connect_to_us, accept(listening, NULL, NULL) >= 0 ? 0 : -1);
    struct timeval second = {5, 0};
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    setsockopt(datagrams, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    CALL("recvfrom with a time limit", NULL, recvfrom(datagrams, &byte, 1, 0, NULL, NULL));
    struct pollfd watched = {in, POLLIN};
    struct timespec five = {5, 0}, rest = {0, 0}, deadline;
    sigset_t none, all, before;
    sigemptyset(&none);
    sigfillset(&all);
    fd_set set;
    CALL("poll", NULL, poll(&watched, 1, 5000));
    CALL("poll for ever", NULL, poll(&watched, 1, -1));
    CALL("ppoll", NULL, ppoll(&watched, 1, &five, NULL));
    CALL("select", NULL, select(in + 1, of(&set), NULL, NULL, NULL));
    CALL("pselect", NULL, pselect(in + 1, of(&set), NULL, NULL, &five, NULL));
    CALL("epoll_wait", NULL, epoll_wait(poller, &event, 1, -1));
    CALL("epoll_pwait", NULL, epoll_pwait(poller, &event, 1, 5000, NULL));
    CALL("nanosleep", NULL, nanosleep(&five, &rest));
    printf("rest: %d\n", rest.tv_sec == 4 && rest.tv_nsec > 0);
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += 5;
    CALL("clock_nanosleep", NULL, clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL));
    CALL("pause", NULL, pause());
    CALL("sigsuspend", NULL, sigsuspend(&none));
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    CALL("sigtimedwait", NULL, syscall(SYS_rt_sigtimedwait, &usr1, NULL, &five, 8));
    CALL("futex", change_word, plain_futex(NULL));
    word = 0;
    CALL("futex with a time limit", NULL, plain_futex(&five));

    /* Masks that hold during a call only: the signal is blocked before and after it. */
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR2, &action, NULL);
    sigprocmask(SIG_SETMASK, &all, &before);
    struct timespec now = {0, 0};
#define MASKED(what, code)                                                              \
    do {                                                                                \
        times = 0;                                                                      \
        raise(SIGUSR2);                                                                 \
        long result = (code);                                                           \
        int failed = errno;                                                             \
        sigset_t mask;                                                                  \
        sigprocmask(SIG_SETMASK, NULL, &mask);                                          \
        printf("%s: %ld %d handled %d, blocked %d\n", what, result, result < 0 ? failed : 0, times, \
               sigismember(&mask, SIGUSR2));                                            \
    } while (0)
    MASKED("ppoll", ppoll(&watched, 1, NULL, &none));
    MASKED("ppoll at once", ppoll(&watched, 1, &now, &none));
    MASKED("pselect", pselect(in + 1, of(&set), NULL, NULL, NULL, &none));
    MASKED("epoll_pwait", epoll_pwait(poller, &event, 1, -1, &none));
    MASKED("sigsuspend", sigsuspend(&none));
    feed_pipe();
    MASKED("ppoll with input", ppoll(&watched, 1, NULL, &none));
    MASKED("epoll_pwait with input", epoll_pwait(poller, &event, 1, -1, &none));
    empty();
    MASKED("ppoll, all blocked", ppoll(&watched, 1, &now, &all));
    sigprocmask(SIG_SETMASK, &before, NULL);
    printf("at last: %d\n", times);

    /* Parts that were done count. */
    sigaction(SIGALRM, &action, NULL);
    times = 0;
    set_timer(20000);
    long wrote = write(out, large, sizeof large);
    set_timer(0);
    printf("long write: %d\n", wrote > 0 && wrote < (long)sizeof large);
    times = 0;
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 0}, sizeof second);
    feed_pair();
    set_timer(20000);
    long got = recv(pair[0], large, 100, MSG_WAITALL);
    set_timer(0);
    printf("recv of all: %ld\n", got);
    if (argc > 1) {
        CALL("standard input", NULL, read(0, &byte, 1));
    }
    return 0;
}
