/* Has 64 objects open and 16 threads that wait in calls of several kinds, and is for SECONDS; with a further argument
 * it has neither. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static int pipes[16][2], pairs[8][2], events[8], pollers[8];
static sem_t never;

static void *waits(void *which) {
    long i = (long)which;
    char byte;
    struct pollfd entry = {pipes[i][0], POLLIN, 0};
    struct epoll_event event;
    switch (i % 4) {
    case 0: return (void *)read(pipes[i][0], &byte, 1);
    case 1: return (void *)(long)poll(&entry, 1, -1);
    case 2: return (void *)(long)epoll_wait(pollers[i / 2], &event, 1, -1);
    default: return (void *)(long)sem_wait(&never);
    }
}

static int hold(void) {
    sem_init(&never, 0, 0);
    for (int i = 0; i < 16; i++)
        if (pipe(pipes[i])) return 1;
    for (int i = 0; i < 8; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i])) return 1;
        events[i] = eventfd(0, 0);
        pollers[i] = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN};
        if (epoll_ctl(pollers[i], EPOLL_CTL_ADD, events[i], &event)) return 1;
    }
    for (long i = 0; i < 15; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, waits, (void *)i)) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc <= 2 && hold()) return 1;
    sleep(argc > 1 ? atoi(argv[1]) : 1);
    puts("still there");
    exit(0);
}
