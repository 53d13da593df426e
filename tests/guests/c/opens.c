/* Opens one of everything, says what it opened, and waits for the end of its input. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int is(const char *what, int descriptor) {
    if (descriptor < 0) {
        perror(what);
        exit(1);
    }
    printf("%s %d\n", what, descriptor);
    return descriptor;
}

int main(void) {
    setvbuf(stdout, NULL, _IOFBF, 4096);
    int file = is("file", open("/dir/file", O_RDWR));
    if (lseek(file, 3, SEEK_SET) != 3) return 1;
    is("copy", dup(file));
    int directory = is("directory", open("/dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    is("beside", openat(directory, "file", O_WRONLY | O_APPEND));
    int ends[2];
    if (pipe(ends)) return 1;
    is("reads", ends[0]), is("writes", ends[1]);
    if (write(ends[1], "hello", 5) != 5) return 1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends)) return 1;
    is("one", ends[0]), is("other", ends[1]);
    int counter = is("event", eventfd(7, 0));
    int timer = is("timer", timerfd_create(CLOCK_MONOTONIC, 0));
    struct itimerspec hour = {{60, 0}, {3600, 0}};
    timerfd_settime(timer, 0, &hour, NULL);
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGTERM);
    is("signals", signalfd(-1, &set, 0));
    int poller = is("epoll", epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(poller, EPOLL_CTL_ADD, counter, &event);
    int listener = is("listens", socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(5000)};
    if (bind(listener, (struct sockaddr *)&name, sizeof name) || listen(listener, 4)) return 1;
    is("datagrams", socket(AF_INET, SOCK_DGRAM, 0));
    int memory = is("memory", memfd_create("m", 0));
    if (ftruncate(memory, 8192)) return 1;
    is("null", open("/dev/null", O_RDONLY));
    is("text", open("/proc/self/maps", O_RDONLY));
    for (int i = 0; i < 200; i++)
        if (dup(0) < 0) return 1;
    printf("all\n");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {}
    return 0;
}
