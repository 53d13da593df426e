/* epolls that watch epolls: what is told at each, by level and at edges, to threads that wait, through pipes, timers and
 * counters; rings and long chains. Prints what the host prints. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { LONGEST = 5 };

static int made(void) {
    int epoll = epoll_create1(0);
    if (epoll < 0) perror("epoll_create1"), exit(1);
    return epoll;
}

static const char *control(int epoll, int operation, int file, uint32_t events, uint64_t data) {
    struct epoll_event event = {.events = events, .data = {.u64 = data}};
    return epoll_ctl(epoll, operation, file, &event) == 0 ? "done" : strerror(errno);
}

static void show(const char *what, int epoll, int timeout) {
    struct epoll_event events[8];
    int count = epoll_wait(epoll, events, 8, timeout);
    printf("%s: %d", what, count);
    for (int i = 0; i < count; i++) printf(", %llu is %#x", (unsigned long long)events[i].data.u64, events[i].events);
    puts("");
}

static void *later(void *file) {
    usleep(20000);
    if (write(*(int *)file, &(uint64_t){1}, 8) != 8) abort();
    return NULL;
}

/* Each but the first watches the one before it. */
static void chains(void) {
    int chain[LONGEST + 1], counter = eventfd(0, EFD_NONBLOCK);
    for (int i = 0; i <= LONGEST; i++) chain[i] = made();
    for (int i = 1; i <= LONGEST; i++) printf("%d of a chain: %s\n", i + 1, control(chain[i], EPOLL_CTL_ADD, chain[i - 1], EPOLLIN, i));
    printf("a ring: %s\n", control(chain[0], EPOLL_CTL_ADD, chain[LONGEST - 1], EPOLLIN, 1));
    printf("itself: %s\n", control(chain[0], EPOLL_CTL_ADD, chain[0], EPOLLIN, 1));
    printf("exclusively: %s\n", control(chain[LONGEST], EPOLL_CTL_ADD, chain[0], EPOLLIN | EPOLLEXCLUSIVE, 1));
    printf("once more: %s\n", control(chain[1], EPOLL_CTL_ADD, chain[0], EPOLLIN, 1));
    printf("a counter: %s\n", control(chain[0], EPOLL_CTL_ADD, counter, EPOLLIN, 77));
    int top = chain[LONGEST - 1];
    pthread_t thread;
    for (int round = 0; round < 3; round++) {
        show("nothing", top, 0);
        if (pthread_create(&thread, NULL, later, &counter)) abort();
        show("the top", top, -1);
        pthread_join(thread, NULL);
        for (int i = LONGEST - 1; i >= 0; i--) show("down", chain[i], 0);
        struct pollfd entry = {.fd = top, .events = POLLIN | POLLOUT | POLLRDNORM};
        int count = poll(&entry, 1, 0);
        printf("poll: %d, %#x\n", count, entry.revents);
        uint64_t value;
        if (read(counter, &value, 8) != 8) abort();
    }
    if (write(counter, &(uint64_t){1}, 8) != 8) abort();
    printf("not any more: %s\n", control(chain[2], EPOLL_CTL_DEL, chain[1], 0, 0));
    show("the top", top, 0);
    show("below", chain[1], 0);
    close(chain[0]);
    show("closed", chain[1], 0);
    for (int i = 1; i <= LONGEST; i++) close(chain[i]);
    close(counter);
}

/* What is told at an edge is an edge of what is watched. */
static void edges(void) {
    int outer = made(), once = made(), inner = made(), ends[2], other[2];
    if (pipe(ends) || pipe(other)) abort();
    control(inner, EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLET, 1);
    control(inner, EPOLL_CTL_ADD, other[0], EPOLLIN | EPOLLET, 2);
    control(outer, EPOLL_CTL_ADD, inner, EPOLLIN | EPOLLET, 3);
    control(once, EPOLL_CTL_ADD, inner, EPOLLIN | EPOLLONESHOT, 4);
    for (int round = 0; round < 3; round++) {
        if (write(ends[1], "x", 1) != 1 || write(other[1], "x", 1) != 1) abort();
        show("at the edge", outer, 0);
        show("not again", outer, 0);
        show("once", once, 0);
        show("not again", once, 0);
        show("inner", inner, 0);
        show("nor that", inner, 0);
        show("and above", outer, 0);
        printf("again: %s\n", control(once, EPOLL_CTL_MOD, inner, EPOLLIN | EPOLLONESHOT, 4));
        show("once", once, 0);
    }
    /* The inner one never can be written. */
    control(outer, EPOLL_CTL_MOD, inner, EPOLLOUT, 3);
    if (write(ends[1], "x", 1) != 1) abort();
    show("nothing that is wanted", outer, 20);
    close(outer), close(once), close(inner);
    close(ends[0]), close(ends[1]), close(other[0]), close(other[1]);
}

/* A timer wakes two levels; each time is told once. */
static void timers(void) {
    int outer = made(), inner = made(), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    control(inner, EPOLL_CTL_ADD, timer, EPOLLIN, 1);
    control(outer, EPOLL_CTL_ADD, inner, EPOLLIN, 2);
    for (int round = 0; round < 3; round++) {
        struct itimerspec setting = {.it_value = {.tv_nsec = 15000000}};
        if (timerfd_settime(timer, 0, &setting, NULL)) abort();
        show("the timer", outer, -1);
        uint64_t times;
        if (read(timer, &times, 8) != 8) abort();
        show("not any more", outer, 0);
    }
    close(outer), close(inner), close(timer);
}

/* Threads that wait at both levels, for many changes: none is lost. */
enum { TOKENS = 400 };

static int levels[2], tokens, left = TOKENS;

static void *takes(void *level) {
    uint64_t value, taken = 0;
    for (;;) {
        struct epoll_event event;
        if (epoll_wait(levels[(long)level], &event, 1, -1) != 1) abort();
        if (read(tokens, &value, 8) != 8) continue;
        taken++;
        /* Whoever has the last one wakes the others, each of which does so again. */
        if (__atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST) <= 0) {
            if (write(tokens, &(uint64_t){8}, 8) != 8) abort();
            return (void *)taken;
        }
    }
}

static void races(void) {
    pthread_t threads[4];
    uint64_t taken = 0;
    levels[0] = made(), levels[1] = made();
    tokens = eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE);
    control(levels[0], EPOLL_CTL_ADD, tokens, EPOLLIN, 1);
    control(levels[1], EPOLL_CTL_ADD, levels[0], EPOLLIN, 2);
    for (long i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, takes, (void *)(i % 2))) abort();
    for (int i = 0; i < TOKENS; i++)
        if (write(tokens, &(uint64_t){1}, 8) != 8) abort();
    for (int i = 0; i < 4; i++) {
        void *count;
        pthread_join(threads[i], &count);
        taken += (uint64_t)count;
    }
    printf("taken: %s\n", taken >= TOKENS ? "all" : "not all");
    close(levels[0]), close(levels[1]), close(tokens);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    chains();
    edges();
    timers();
    races();
    return 0;
}
