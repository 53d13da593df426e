/* What socket calls say within one program: run on a node and on the host, it prints the same. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* An address where nothing is. */
static void *volatile nowhere = (void *)8;

static void say(const char *what, long result) {
    if (result < 0)
        printf("%s: %s\n", what, strerror(errno));
    else
        printf("%s: %ld\n", what, result);
}

#define SAY(call) say(#call, call)

static struct sockaddr_in name(unsigned address, int port) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(address)}};
    return name;
}

static int port_of(int s) {
    struct sockaddr_in here;
    socklen_t length = sizeof here;
    return getsockname(s, (void *)&here, &length) ? -1 : ntohs(here.sin_port);
}

static void who(const char *what, int (*ask)(int, struct sockaddr *, socklen_t *), int s, int known_port) {
    struct sockaddr_in there;
    socklen_t length = sizeof there;
    memset(&there, 0, sizeof there);
    if (ask(s, (void *)&there, &length))
        printf("%s: %s\n", what, strerror(errno));
    else
        printf("%s: %d %s port %s, %d bytes\n", what, there.sin_family, inet_ntoa(there.sin_addr),
               there.sin_port == 0 ? "none" : ntohs(there.sin_port) == known_port ? "known" : "some", length);
}

static void events(const char *what, int s) {
    struct pollfd entries[3] = {{-1, -1, 0x55}, {s, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0}, {s, 0, 0}};
    int ready = poll(entries, 3, 0);
    printf("%s: poll %d: %#x %#x %#x\n", what, ready, entries[0].revents, entries[1].revents, entries[2].revents);
}

static long option(int s, int level, int which) {
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(s, level, which, &value, &length) ? -1 : value;
}

static long set(int s, int level, int which, int value) {
    return setsockopt(s, level, which, &value, sizeof value);
}

static int listener_at(unsigned address) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in here = name(address, 0);
    if (s < 0 || bind(s, (void *)&here, sizeof here) || listen(s, 16)) {
        perror("listener");
        exit(1);
    }
    return s;
}

/* Two ends of a connection. */
static void connection(int listener, int *one, int *other) {
    struct sockaddr_in there = name(INADDR_LOOPBACK, port_of(listener));
    *one = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(*one, (void *)&there, sizeof there) || (*other = accept(listener, 0, 0)) < 0) {
        perror("connection");
        exit(1);
    }
}

static void close_both(int one, int other) {
    close(one);
    close(other);
}

static void making(void) {
    SAY(socket(AF_INET, SOCK_STREAM, 17));
    SAY(socket(AF_INET, 77, 0));
    SAY(socket(AF_INET, SOCK_STREAM | 0x100000, 0));
    SAY(socket(4711, SOCK_STREAM, 0));
    int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    SAY(fcntl(s, F_GETFD));
    SAY(fcntl(s, F_GETFL));
    struct stat status;
    SAY(fstat(s, &status));
    printf("mode %o\n", status.st_mode);
    SAY(lseek(s, 0, SEEK_SET));
    events("fresh", s);
    who("fresh", getsockname, s, 0);
    who("fresh", getpeername, s, 0);
    SAY(option(s, SOL_SOCKET, SO_ERROR));
    SAY(option(s, SOL_SOCKET, SO_TYPE));
    SAY(option(s, SOL_SOCKET, SO_DOMAIN));
    SAY(option(s, SOL_SOCKET, SO_PROTOCOL));
    char byte;
    SAY(recv(s, &byte, 1, 0));
    SAY(send(s, "x", 1, MSG_NOSIGNAL));
    SAY(shutdown(s, SHUT_RDWR));
    SAY(accept(s, 0, 0));
    struct sockaddr_in here = name(INADDR_ANY, 0), foreign = name(0x0a090807, 0);
    SAY(bind(s, (void *)&here, 8));
    SAY(bind(s, (void *)&foreign, sizeof foreign));
    foreign.sin_family = AF_UNIX;
    SAY(bind(s, (void *)&foreign, sizeof foreign));
    SAY(bind(s, nowhere, sizeof here));
    SAY(bind(s, (void *)&here, sizeof here));
    SAY(bind(s, (void *)&here, sizeof here));
    who("bound", getsockname, s, port_of(s));
    SAY(option(s, SOL_SOCKET, SO_ACCEPTCONN));
    SAY(listen(s, SOMAXCONN));
    SAY(listen(s, 4));
    SAY(option(s, SOL_SOCKET, SO_ACCEPTCONN));
    events("listening", s);
    SAY(accept(s, 0, 0));
    SAY(read(s, &byte, 1));
    int again = socket(AF_INET, SOCK_STREAM, 0);
    here.sin_port = htons(port_of(s));
    SAY(bind(again, (void *)&here, sizeof here));
    close_both(s, again);
    SAY(bind(0, (void *)&here, sizeof here));
    SAY(listen(99, 1));
}

static void connecting(int listener) {
    int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), port = port_of(listener);
    struct sockaddr_in there = name(INADDR_LOOPBACK, port), peer;
    int made = connect(s, (void *)&there, sizeof there);
    if (made < 0 && errno != EINPROGRESS)
        perror("connect");
    struct pollfd entry = {s, POLLOUT, 0};
    SAY(poll(&entry, 1, -1));
    SAY(option(s, SOL_SOCKET, SO_ERROR));
    events("connected", s);
    who("connected", getpeername, s, port);
    if (made < 0)
        connect(s, (void *)&there, sizeof there);
    SAY(connect(s, (void *)&there, sizeof there));
    SAY(listen(s, 1));
    events("to be accepted", listener);
    socklen_t length = sizeof peer;
    int accepted = accept4(listener, (void *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    printf("accepted: %d bytes, %s, the port %s\n", length, inet_ntoa(peer.sin_addr),
           ntohs(peer.sin_port) == port_of(s) ? "is the peer's" : "is another");
    SAY(fcntl(accepted, F_GETFL));
    SAY(fcntl(accepted, F_GETFD));
    who("accepted", getsockname, accepted, port);
    who("accepted", getpeername, accepted, port_of(s));
    length = 4;
    SAY(getpeername(accepted, (void *)&peer, &length));
    printf("of %d bytes\n", length);
    close_both(s, accepted);
    /* A port where nobody listens. */
    int gone = listener_at(INADDR_LOOPBACK);
    there = name(INADDR_LOOPBACK, port_of(gone));
    close(gone);
    s = socket(AF_INET, SOCK_STREAM, 0);
    SAY(connect(s, (void *)&there, sizeof there));
    SAY(option(s, SOL_SOCKET, SO_ERROR));
    there = name(INADDR_ANY, port);
    SAY(connect(s, (void *)&there, sizeof there));
    who("to any", getpeername, s, port);
    close_both(s, accept(listener, 0, 0));
    s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    there = name(INADDR_LOOPBACK, port);
    there.sin_family = AF_UNIX;
    SAY(connect(s, (void *)&there, sizeof there));
    SAY(connect(s, (void *)&there, 3));
    close(s);
}

static void transfer(int listener) {
    int one, other;
    char bytes[64] = {0};
    connection(listener, &one, &other);
    SAY(send(one, "hello", 5, 0));
    SAY(recv(other, bytes, 3, MSG_PEEK));
    int count = 0;
    SAY(ioctl(other, FIONREAD, &count));
    printf("held: %d\n", count);
    SAY(recv(other, bytes, sizeof bytes, 0));
    printf("“%s”\n", bytes);
    SAY(recv(other, bytes, sizeof bytes, MSG_DONTWAIT));
    struct iovec parts[3] = {{"ab", 2}, {"", 0}, {"cdef", 4}};
    SAY(writev(other, parts, 3));
    memset(bytes, 0, sizeof bytes);
    struct iovec into[2] = {{bytes, 1}, {bytes + 10, 9}};
    SAY(readv(one, into, 2));
    printf("“%s” “%s”\n", bytes, bytes + 10);
    struct sockaddr_in from;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3, .msg_name = &from, .msg_namelen = sizeof from};
    SAY(sendmsg(one, &message, 0));
    message.msg_iov = into;
    message.msg_iovlen = 2;
    message.msg_namelen = sizeof from;
    SAY(recvmsg(other, &message, 0));
    printf("name of %d bytes, flags %#x\n", message.msg_namelen, message.msg_flags);
    struct mmsghdr several[2] = {{.msg_hdr = {.msg_iov = parts, .msg_iovlen = 1}},
                                 {.msg_hdr = {.msg_iov = parts + 2, .msg_iovlen = 1}}};
    SAY(sendmmsg(one, several, 2, 0));
    printf("%d and %d\n", several[0].msg_len, several[1].msg_len);
    SAY(recv(other, bytes, 6, MSG_WAITALL));
    SAY(send(one, "123456", 6, 0));
    struct mmsghdr taken[2] = {{.msg_hdr = {.msg_iov = into, .msg_iovlen = 1}},
                               {.msg_hdr = {.msg_iov = into + 1, .msg_iovlen = 1}}};
    SAY(recvmmsg(other, taken, 2, 0, 0));
    printf("%d and %d\n", taken[0].msg_len, taken[1].msg_len);
    SAY(send(one, "123456", 6, 0));
    SAY(recv(other, 0, 4, MSG_TRUNC));
    SAY(sendto(one, "x", 1, 0, (void *)&from, sizeof from));
    socklen_t length = sizeof from;
    SAY(recvfrom(other, bytes, sizeof bytes, 0, (void *)&from, &length));
    printf("from %d bytes\n", length);
    SAY(send(one, "x", 1, 0));
    SAY(read(other, nowhere, 1));
    SAY(read(other, bytes, 1));
    SAY(write(one, nowhere, 1));
    struct timeval half = {0, 50000};
    SAY(setsockopt(other, SOL_SOCKET, SO_RCVTIMEO, &half, sizeof half));
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    SAY(recv(other, bytes, 1, 0));
    clock_gettime(CLOCK_MONOTONIC, &after);
    long waited = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    if (waited >= 49 && waited < 5000) printf("waited about as long\n");
    else printf("waited for %ld ms\n", waited);
    int on = 1;
    SAY(ioctl(other, FIONBIO, &on));
    SAY(recv(other, bytes, 1, 0));
    int copy = dup(one);
    SAY(close(one));
    SAY(write(copy, "copy", 4));
    SAY(read(other, bytes, sizeof bytes));
    fcntl(copy, F_SETFL, O_NONBLOCK);
    static char much[65536];
    long sent = 0, done;
    while ((done = send(copy, much, sizeof much, 0)) > 0)
        sent += done;
    say("until there is no room", done);
    events("full", copy);
    while (sent > 0 && (done = recv(other, much, sizeof much, 0)) > 0)
        sent -= done;
    printf("left %ld\n", sent);
    close_both(copy, other);
}

static void ending(int listener) {
    int one, other;
    char byte;
    connection(listener, &one, &other);
    SAY(send(one, "x", 1, 0));
    SAY(shutdown(one, SHUT_WR));
    SAY(send(one, "x", 1, MSG_NOSIGNAL));
    events("half closed", one);
    events("peer half closed", other);
    SAY(recv(other, &byte, 1, 0));
    SAY(recv(other, &byte, 1, 0));
    SAY(send(other, "y", 1, 0));
    SAY(recv(one, &byte, 1, 0));
    SAY(shutdown(other, 7));
    SAY(shutdown(other, SHUT_RDWR));
    events("closed", other);
    signal(SIGPIPE, SIG_IGN);
    SAY(write(other, "z", 1));
    close_both(one, other);
    connection(listener, &one, &other);
    SAY(send(one, "x", 1, 0));
    SAY(send(other, "y", 1, 0));
    struct pollfd entry = {other, POLLIN, 0};
    SAY(poll(&entry, 1, -1));
    close(other);
    entry = (struct pollfd){one, POLLRDHUP, 0};
    SAY(poll(&entry, 1, -1));
    events("reset", one);
    SAY(option(one, SOL_SOCKET, SO_ERROR));
    events("told", one);
    close(one);
    connection(listener, &one, &other);
    struct linger at_once = {1, 0};
    SAY(setsockopt(one, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
    close(one);
    SAY(recv(other, &byte, 1, 0));
    SAY(recv(other, &byte, 1, 0));
    close(other);
}

static void options(void) {
    static const struct {
        int level, which, value;
        const char *name;
    } all[] = {
#define OPTION(level, which, value) {level, which, value, #which}
        OPTION(SOL_SOCKET, SO_REUSEADDR, 1), OPTION(SOL_SOCKET, SO_REUSEPORT, 1), OPTION(SOL_SOCKET, SO_KEEPALIVE, 7),
        OPTION(SOL_SOCKET, SO_BROADCAST, 1), OPTION(SOL_SOCKET, SO_OOBINLINE, 1), OPTION(SOL_SOCKET, SO_SNDBUF, 20000),
        OPTION(SOL_SOCKET, SO_RCVBUF, 30000), OPTION(SOL_SOCKET, SO_RCVLOWAT, 3), OPTION(SOL_SOCKET, SO_PRIORITY, 2),
        OPTION(SOL_SOCKET, SO_TYPE, 1), OPTION(SOL_SOCKET, SO_ERROR, 1), OPTION(SOL_SOCKET, 4711, 1),
        OPTION(IPPROTO_TCP, TCP_NODELAY, 1), OPTION(IPPROTO_TCP, TCP_CORK, 1), OPTION(IPPROTO_TCP, TCP_KEEPIDLE, 60),
        OPTION(IPPROTO_TCP, TCP_KEEPINTVL, 5), OPTION(IPPROTO_TCP, TCP_KEEPCNT, 3), OPTION(IPPROTO_TCP, TCP_KEEPCNT, 0),
        OPTION(IPPROTO_TCP, TCP_SYNCNT, 2), OPTION(IPPROTO_TCP, TCP_USER_TIMEOUT, 5000),
        OPTION(IPPROTO_TCP, TCP_MAXSEG, 1), OPTION(IPPROTO_TCP, 4711, 1), OPTION(IPPROTO_IP, IP_TTL, 9),
        OPTION(4711, 1, 1),
    };
    int s = socket(AF_INET, SOCK_STREAM, 0);
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        say(all[i].name, option(s, all[i].level, all[i].which) == all[i].value);
        say(all[i].name, set(s, all[i].level, all[i].which, all[i].value));
        say(all[i].name, option(s, all[i].level, all[i].which));
    }
    SAY(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &s, 2));
    SAY(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, nowhere, 4));
    struct timeval time = {3, 500000};
    SAY(setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time));
    memset(&time, 0, sizeof time);
    socklen_t length = sizeof time;
    SAY(getsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &time, &length));
    printf("%ld.%06ld s in %d bytes\n", (long)time.tv_sec, (long)time.tv_usec, length);
    struct linger linger = {1, 5};
    SAY(setsockopt(s, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    length = sizeof linger;
    SAY(getsockopt(s, SOL_SOCKET, SO_LINGER, &linger, &length));
    printf("%d %d\n", linger.l_onoff, linger.l_linger);
    length = 2;
    int value = -1;
    SAY(getsockopt(s, SOL_SOCKET, SO_TYPE, &value, &length));
    printf("%#x in %d bytes\n", value, length);
    struct tcp_info info;
    length = sizeof info;
    SAY(getsockopt(s, IPPROTO_TCP, TCP_INFO, &info, &length));
    printf("state %d\n", info.tcpi_state);
    close(s);
    SAY(getsockopt(0, SOL_SOCKET, SO_TYPE, &value, &length));
    SAY(getsockopt(99, SOL_SOCKET, SO_TYPE, &value, &length));
}

static void waiting(int listener) {
    int one, other;
    char byte;
    connection(listener, &one, &other);
    int set = epoll_create1(0);
    struct epoll_event event = {EPOLLIN | EPOLLRDHUP | EPOLLET, {.u64 = 7}};
    SAY(epoll_ctl(set, EPOLL_CTL_ADD, one, &event));
    SAY(epoll_wait(set, &event, 1, 0));
    SAY(write(other, "x", 1));
    SAY(epoll_wait(set, &event, 1, -1));
    printf("%#x %ld\n", event.events, (long)event.data.u64);
    SAY(epoll_wait(set, &event, 1, 0));
    SAY(write(other, "y", 1));
    SAY(epoll_wait(set, &event, 1, -1));
    fd_set readable, writable;
    FD_ZERO(&readable);
    FD_ZERO(&writable);
    FD_SET(one, &readable);
    FD_SET(other, &readable);
    FD_SET(other, &writable);
    SAY(select(one + other + 1, &readable, &writable, 0, 0));
    printf("%d %d %d\n", !!FD_ISSET(one, &readable), !!FD_ISSET(other, &readable), !!FD_ISSET(other, &writable));
    close(other);
    SAY(epoll_wait(set, &event, 1, -1));
    printf("%#x\n", event.events);
    SAY(read(one, &byte, 1));
    close_both(one, set);
}

static void pairs(void) {
    int ends[2], value;
    char bytes[16];
    SAY(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    SAY(option(ends[0], SOL_SOCKET, SO_TYPE));
    SAY(option(ends[0], SOL_SOCKET, SO_DOMAIN));
    SAY(send(ends[0], "message", 7, 0));
    SAY(recv(ends[1], bytes, 3, MSG_TRUNC | MSG_PEEK));
    struct iovec into = {bytes, 3};
    struct msghdr message = {.msg_iov = &into, .msg_iovlen = 1};
    SAY(recvmsg(ends[1], &message, 0));
    printf("flags %#x\n", message.msg_flags);
    SAY(recv(ends[1], bytes, 3, MSG_DONTWAIT));
    SAY(shutdown(ends[0], SHUT_WR));
    SAY(recv(ends[1], bytes, 3, 0));
    SAY(send(ends[0], "x", 1, MSG_NOSIGNAL));
    struct sockaddr_in there = name(INADDR_LOOPBACK, 1);
    SAY(listen(ends[0], 1) < 0);
    socklen_t length = sizeof there;
    SAY(getsockname(ends[0], (void *)&there, &length));
    printf("%d in %d bytes\n", there.sin_family, length);
    length = sizeof value;
    close_both(ends[0], ends[1]);
}

int main(void) {
    setvbuf(stdout, 0, _IOFBF, 65536);
    int listener = listener_at(INADDR_ANY);
    making();
    connecting(listener);
    transfer(listener);
    ending(listener);
    options();
    waiting(listener);
    pairs();
    return 0;
}
