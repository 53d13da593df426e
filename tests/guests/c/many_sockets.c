/* Rank 1 makes COUNT connections to rank 0 on another node, which waits for bytes on all of them by epoll and then by
   poll: each connection brings one, in an order that jumps about, and is answered. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT 5000
#define MOST 1020

static int all[MOST];

static void check(int is_right, const char *what, int which) {
    if (!is_right) {
        fprintf(stderr, "%s of %d: %s\n", what, which, strerror(errno));
        exit(1);
    }
}

static void serve(int count) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), set = epoll_create1(0), number_of[2048];
    check(bind(listener, (void *)&here, sizeof here) == 0 && listen(listener, 128) == 0, "listen", 0);
    for (int i = 0; i < count; i++) {
        struct epoll_event event = {EPOLLIN, {.u32 = i}};
        all[i] = accept(listener, 0, 0);
        check(all[i] >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, all[i], &event) == 0, "accept", i);
        number_of[all[i]] = i;
    }
    close(listener);
    char byte;
    for (int i = 0; i < count; i++) {
        struct epoll_event event;
        check(epoll_wait(set, &event, 1, 20000) == 1 && event.events == EPOLLIN, "epoll_wait", i);
        int s = all[event.data.u32];
        check(read(s, &byte, 1) == 1 && byte == (char)event.data.u32 && write(s, &byte, 1) == 1, "epoll", i);
    }
    printf("epoll: %d sockets\n", count);
    static struct pollfd entries[MOST];
    for (int i = 0; i < count; i++)
        entries[i] = (struct pollfd){all[i], POLLIN, 0};
    for (int answered = 0; answered < count;) {
        check(poll(entries, count, 20000) > 0, "poll", answered);
        for (int i = 0; i < count; i++) {
            if (entries[i].revents == 0)
                continue;
            int s = entries[i].fd;
            check(entries[i].revents == POLLIN && read(s, &byte, 1) == 1, "poll", i);
            check(byte == (char)number_of[s] && write(s, &byte, 1) == 1, "poll", i);
            answered++;
        }
    }
    printf("poll: %d sockets\n", count);
    for (int i = 0; i < count; i++)
        check(read(all[i], &byte, 1) == 0, "the end", i);
}

static void ask(int count) {
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr = {htonl(0x0a800001)}};
    for (int i = 0; i < count; i++) {
        while ((all[i] = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && connect(all[i], (void *)&there, sizeof there)) {
            check(errno == ECONNREFUSED && i == 0, "connect", i);
            close(all[i]);
            usleep(20000);
        }
        check(all[i] >= 0, "socket", i);
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < count; i++) {
            int which = (int)((long)i * 389 % count);
            char byte = (char)which, answer = (char)~which;
            check(write(all[which], &byte, 1) == 1, "write", which);
            check(read(all[which], &answer, 1) == 1 && answer == byte, "answer", which);
        }
    }
}

int main(int argc, char **argv) {
    int count = atoi(argv[1]);
    if (atoi(getenv("COPPICE_RANK")) == 0)
        serve(count);
    else
        ask(count);
    return 0;
}
