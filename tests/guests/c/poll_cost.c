/* Measures poll(2) of 16 descriptors of which none is ready, with a time limit of 0, in units of the time-stamp counter;
   under `-icount shift=0` that is instructions. The descriptors are reading ends of pipes, ends of socket pairs,
   counters, and, where there are sockets, connections over the node's own address. Prints `poll-WHAT COUNT-PER-CALL`
   lines. Also serves as the init of another kernel that is measured the same way: as process 1 it ends the machine. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#define COUNT 16

static inline long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

static void measure(const char *name, const int *descriptors, int rounds) {
    struct pollfd entries[COUNT];
    for (int i = 0; i < COUNT; i++) entries[i] = (struct pollfd){.fd = descriptors[i], .events = POLLIN};
    long ready = call(SYS_poll, (long)entries, COUNT, 0);
    uint64_t start = __rdtsc();
    for (int i = 0; i < rounds; i++) __asm__ volatile("" ::: "memory");
    uint64_t loop = __rdtsc() - start;
    start = __rdtsc();
    for (int i = 0; i < rounds; i++) ready |= call(SYS_poll, (long)entries, COUNT, 0);
    uint64_t calls = __rdtsc() - start;
    if (ready == 0) printf("poll-%s %.1f\n", name, (double)(calls - loop) / rounds);
    else printf("poll-%s: ready %ld\n", name, ready);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 10000;
    int descriptors[COUNT];
    for (int i = 0; i < COUNT; i++) descriptors[i] = -1;
    measure("nothing", descriptors, rounds);
    for (int i = 0; i < COUNT; i++) {
        int ends[2];
        if (pipe(ends) != 0) return perror("pipe"), 1;
        descriptors[i] = ends[0];
    }
    measure("pipes", descriptors, rounds);
    int epoll = epoll_create1(0);
    for (int i = 0; i < COUNT; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, descriptors[i], &event) != 0) return perror("epoll_ctl"), 1;
    }
    struct epoll_event events[COUNT];
    uint64_t start = __rdtsc();
    for (int i = 0; i < rounds; i++) epoll_wait(epoll, events, COUNT, 0);
    printf("epoll-pipes %.1f\n", (double)(__rdtsc() - start) / rounds);
    for (int i = 0; i < COUNT; i++) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return perror("socketpair"), 1;
        descriptors[i] = ends[0];
    }
    measure("pairs", descriptors, rounds);
    for (int i = 0; i < COUNT; i++) descriptors[i] = eventfd(0, 0);
    measure("counters", descriptors, rounds);

    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener >= 0) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t length = sizeof address;
        int made = bind(listener, (void *)&address, sizeof address) == 0 && listen(listener, COUNT) == 0
                   && getsockname(listener, (void *)&address, &length) == 0;
        for (int i = 0; made && i < COUNT; i++) {
            descriptors[i] = socket(AF_INET, SOCK_STREAM, 0);
            made = connect(descriptors[i], (void *)&address, sizeof address) == 0;
        }
        if (made) measure("sockets", descriptors, rounds);
        else printf("sockets: %s\n", strerror(errno));
    }
    fflush(stdout);
    if (getpid() == 1) reboot(RB_AUTOBOOT);
    return 0;
}
