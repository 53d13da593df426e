/* Pipes, counters, what epoll watches, open files, and the kinds of descriptor that not every kernel has. */
#include "common.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

static void make_pipes(int count, const char *way) {
    int ends[2];
    for (int i = 0; i < count && pipe2(ends, O_CLOEXEC) == 0; i++) {
        keep(ends[0]);
        keep(ends[1]);
        if (strcmp(way, "full") == 0) fill(ends[1]);
        if (strcmp(way, "tiny") == 0) (void)!write(ends[1], "x", 1);
    }
}

static void make_events(int count, const char *way) {
    (void)way;
    for (int i = 0; i < count && keep(eventfd(0, 0)); i++) {}
}

/* Each watches all descriptors there are. */
static void make_epolls(int count, const char *way) {
    (void)way;
    int watched = kept_count;
    for (int i = 0; i < count; i++) {
        int poller = epoll_create1(0);
        if (!keep(poller)) return;
        for (int at = 0; at < watched; at++) {
            struct epoll_event event = {EPOLLIN | EPOLLOUT | (at % 2 ? EPOLLET : 0), {.fd = kept[at]}};
            if (epoll_ctl(poller, EPOLL_CTL_ADD, kept[at], &event) != 0 && errno == ENOMEM) break;
        }
    }
}

static void make_files(int count, const char *way) {
    char name[40];
    snprintf(name, sizeof name, "objects-%d", (int)getpid() % 8);
    for (int i = 0; i < count; i++) {
        int directory = strcmp(way, "directory") == 0;
        int file = directory ? open(".", O_RDONLY | O_DIRECTORY) : open(name, O_RDWR | O_CREAT, 0600);
        if (!keep(file)) return;
        if (strcmp(way, "write") == 0) (void)!pwrite(file, name, sizeof name, i);
        if (strcmp(way, "map") == 0 && mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED) return;
    }
}

static void make_others(int count, const char *way) {
    sigset_t set;
    sigfillset(&set);
    for (int i = 0; i < count; i++) {
        struct itimerspec often = {{0, 1000000}, {0, 1000000}};
        int other = -1;
        if (strcmp(way, "timer") == 0 && (other = timerfd_create(CLOCK_MONOTONIC, 0)) >= 0)
            timerfd_settime(other, 0, &often, NULL);
        if (strcmp(way, "signal") == 0) other = signalfd(-1, &set, SFD_NONBLOCK);
        if (strcmp(way, "memory") == 0 && (other = memfd_create("objects", 0)) >= 0) {
            /* The first takes all memory there is. */
            if (i == 0) fill(other);
            (void)!write(other, &set, sizeof set);
            if (i == 0) close(other);
        }
        if (strcmp(way, "notify") == 0 && (other = inotify_init1(IN_NONBLOCK)) >= 0)
            inotify_add_watch(other, ".", IN_ALL_EVENTS);
        if (!(strcmp(way, "memory") == 0 && i == 0) && !keep(other)) return;
        if (other < 0) return;
    }
}
