/* Threads wait in calls while another closes what those are about, and has the numbers stand for something else: the
   calls go on with what they began with. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* The thread is about to call. */
static atomic_int is_there;

static void check(int is_right, const char *what) {
    if (!is_right) {
        perror(what);
        exit(1);
    }
}

static void *reads(void *number) {
    char bytes[9];
    is_there = 1;
    long count = read(*(int *)number, bytes, sizeof bytes);
    printf("read %ld: %.*s\n", count, (int)count, bytes);
    return 0;
}

static void *receives(void *number) {
    char bytes[9];
    is_there = 1;
    long count = recv(*(int *)number, bytes, sizeof bytes, 0);
    printf("recv %ld: %.*s\n", count, (int)count, bytes);
    return 0;
}

static void *accepts(void *number) {
    is_there = 1;
    int made = accept(*(int *)number, 0, 0);
    check(made >= 0, "accept");
    char byte = 0;
    long count = read(made, &byte, 1);
    printf("accept: %ld %c\n", count, byte);
    close(made);
    return 0;
}

static void *waits(void *number) {
    struct epoll_event event;
    is_there = 1;
    int count = epoll_wait(*(int *)number, &event, 1, -1);
    printf("epoll_wait: %d %d\n", count, count == 1 ? event.data.fd : -1);
    return 0;
}

/* Time enough to be in the call, and to be disturbed there. */
static void moment(void) {
    usleep(30000);
}

static pthread_t begin(void *(*waits)(void *), int *number) {
    pthread_t thread;
    is_there = 0;
    check(pthread_create(&thread, 0, waits, number) == 0, "pthread_create");
    while (!is_there) usleep(1000);
    moment();
    int nothing = open("/dev/null", O_RDWR);
    check(nothing >= 0 && dup2(nothing, *number) == *number && close(nothing) == 0, "dup2");
    moment();
    return thread;
}

static void end(pthread_t thread, int number) {
    check(pthread_join(thread, 0) == 0, "pthread_join");
    char byte;
    printf("then %ld\n", (long)read(number, &byte, 1));
    close(number);
    fflush(stdout);
}

int main(void) {
    int ends[2];
    check(pipe(ends) == 0, "pipe");
    pthread_t thread = begin(reads, &ends[0]);
    check(write(ends[1], "pipe", 4) == 4, "write");
    end(thread, ends[0]);
    close(ends[1]);

    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    thread = begin(receives, &ends[0]);
    check(write(ends[1], "pair", 4) == 4, "write");
    end(thread, ends[0]);
    close(ends[1]);

    int listener = socket(AF_INET, SOCK_STREAM, 0), calls = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof name;
    check(bind(listener, (void *)&name, sizeof name) == 0 && listen(listener, 1) == 0, "listen");
    check(getsockname(listener, (void *)&name, &length) == 0, "getsockname");
    thread = begin(accepts, &listener);
    check(connect(calls, (void *)&name, sizeof name) == 0 && write(calls, "c", 1) == 1, "connect");
    end(thread, listener);
    close(calls);

    int poller = epoll_create1(0);
    check(pipe(ends) == 0, "pipe");
    struct epoll_event wanted = {.events = EPOLLIN, .data = {.fd = 77}};
    check(epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &wanted) == 0, "epoll_ctl");
    thread = begin(waits, &poller);
    check(write(ends[1], "x", 1) == 1, "write");
    end(thread, poller);
    return 0;
}
