/* Two ranks on nodes of their own talk by datagrams, in all the ways there are, then each with itself. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT 5001
#define LONG_BYTES 8000

static void check(int is_right, const char *what) {
    if (!is_right) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static struct sockaddr_in name(unsigned address, int port) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(address)}};
    return name;
}

static int made(void) {
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP), type = 0;
    socklen_t length = sizeof type;
    check(s >= 0, "socket");
    check(getsockopt(s, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_DGRAM, "SO_TYPE");
    return s;
}

static int bound(unsigned address, int port) {
    struct sockaddr_in here = name(address, port);
    int s = made();
    check(bind(s, (void *)&here, sizeof here) == 0, "bind");
    return s;
}

/* Answers what comes, until a datagram of no bytes comes. */
static void server(void) {
    int s = bound(INADDR_ANY, PORT);
    static char bytes[LONG_BYTES + 100];
    for (;;) {
        struct sockaddr_in from;
        struct iovec two[2] = {{bytes, 3}, {bytes + 3, sizeof bytes - 3}};
        struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = two, .msg_iovlen = 2};
        ssize_t count = recvmsg(s, &message, 0);
        check(count >= 0 && message.msg_namelen == sizeof from && message.msg_flags == 0, "recvmsg");
        check(from.sin_addr.s_addr == htonl(0x0a800002), "the sender");
        if (count == 0)
            return;
        for (ssize_t i = 0; i < count; i++)
            bytes[i] ^= 0x55;
        two[1].iov_len = count > 3 ? count - 3 : 0, two[0].iov_len = count < 3 ? count : 3;
        check(sendmsg(s, &message, 0) == count, "sendmsg");
    }
}

/* Datagrams may be lost on the way while the server is not there yet: asks until an answer comes. */
static void ask(int s, const char *question, ssize_t length, const struct sockaddr_in *to) {
    static char answer[LONG_BYTES + 100];
    for (int attempts = 0;; attempts++) {
        check(attempts < 400, "an answer");
        ssize_t sent = to ? sendto(s, question, length, 0, (void *)to, sizeof *to) : send(s, question, length, 0);
        check(sent == length || errno == ECONNREFUSED, "sendto");
        struct pollfd entry = {s, POLLIN, 0};
        if (poll(&entry, 1, 50) == 0)
            continue;
        struct sockaddr_in from;
        socklen_t name_length = sizeof from;
        ssize_t count = recvfrom(s, answer, sizeof answer, 0, (void *)&from, &name_length);
        if (count < 0 && errno == ECONNREFUSED) {
            usleep(20000);
            continue;
        }
        check(count == length && name_length == sizeof from && ntohs(from.sin_port) == PORT, "recvfrom");
        for (ssize_t i = 0; i < length; i++)
            check((answer[i] ^ 0x55) == question[i], "a byte of the answer");
        return;
    }
}

static void client(void) {
    static char question[LONG_BYTES];
    for (int i = 0; i < LONG_BYTES; i++)
        question[i] = (char)(i * 7 + i / 251);
    struct sockaddr_in server = name(0x0a800001, PORT), peer;
    socklen_t length = sizeof peer;
    int loose = made(), connected = made(), epoll = epoll_create1(0);
    ask(loose, question, 1, &server);
    ask(loose, question, LONG_BYTES, &server);
    check(connect(connected, (void *)&server, sizeof server) == 0, "connect");
    check(getpeername(connected, (void *)&peer, &length) == 0 && !memcmp(&peer, &server, sizeof peer), "getpeername");
    check(getsockname(connected, (void *)&peer, &length) == 0 && peer.sin_addr.s_addr == htonl(0x0a800002), "getsockname");
    ask(connected, question, 100, NULL);
    /* The same through epoll, which tells of it once. */
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u32 = 9}};
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, connected, &event) == 0, "epoll_ctl");
    check(send(connected, question, 5, 0) == 5 && epoll_wait(epoll, &event, 1, -1) == 1 && event.data.u32 == 9, "epoll");
    check(epoll_wait(epoll, &event, 1, 0) == 0, "once");
    char five[9];
    check(recv(connected, five, 2, MSG_PEEK) == 2 && recv(connected, five, 2, MSG_TRUNC) == 5, "MSG_TRUNC");
    check(recv(connected, five, 2, MSG_DONTWAIT) < 0 && errno == EAGAIN, "MSG_DONTWAIT");
    /* Nobody has that port. */
    struct sockaddr_in nobody = name(0x0a800001, PORT + 1);
    check(connect(connected, (void *)&nobody, sizeof nobody) == 0 && send(connected, "?", 1, 0) == 1, "send to nobody");
    struct pollfd entry = {connected, POLLIN, 0};
    check(poll(&entry, 1, -1) == 1 && entry.revents & POLLERR, "POLLERR");
    check(recv(connected, five, 1, 0) < 0 && errno == ECONNREFUSED, "a port that nobody has");
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    check(connect(connected, &none, sizeof none) == 0, "no peer any more");
    check(send(connected, "?", 1, 0) < 0 && errno == EDESTADDRREQ, "no destination");
    check(sendto(loose, "", 0, 0, (void *)&server, sizeof server) == 0, "the last one");
}

static void refused(unsigned neighbour) {
    int s = made(), other = made(), one = 1;
    static char huge[70000];
    struct sockaddr_in to = name(neighbour, 9), io_node = name(0x0a000001, 7001), all = name(0x0affffff, 9);
    struct sockaddr_in control = name(INADDR_ANY, 7003), own = name(INADDR_LOOPBACK, 5002);
    check(sendto(s, huge, sizeof huge, 0, (void *)&to, sizeof to) < 0 && errno == EMSGSIZE, "too long");
    check(sendto(s, huge, 20000, 0, (void *)&to, sizeof to) < 0 && errno == EMSGSIZE, "too long for a packet");
    check(sendto(s, huge, 1, 0, (void *)&io_node, sizeof to) < 0 && errno == ENETUNREACH, "the I/O node");
    check(connect(s, (void *)&io_node, sizeof to) < 0 && errno == ENETUNREACH, "connect to the I/O node");
    check(sendto(s, huge, 1, 0, (void *)&all, sizeof to) < 0 && errno == EACCES, "all");
    check(setsockopt(s, SOL_SOCKET, SO_BROADCAST, &one, sizeof one) == 0, "SO_BROADCAST");
    check(sendto(s, huge, 1, 0, (void *)&all, sizeof to) == 1, "all, when allowed");
    check(bind(other, (void *)&control, sizeof control) < 0 && errno == EACCES, "a port of the cluster");
    check(listen(s, 1) < 0 && errno == EOPNOTSUPP, "listen");
    check(accept(s, 0, 0) < 0 && errno == EOPNOTSUPP, "accept");
    check(setsockopt(s, IPPROTO_TCP, 1, &one, sizeof one) < 0 && errno == ENOPROTOOPT, "TCP_NODELAY");
    /* Within the node, with the longest there are; FIONREAD tells the length of one. */
    int receiver = bound(INADDR_LOOPBACK, 5002), held = 0;
    check(sendto(s, huge, 65507, 0, (void *)&own, sizeof own) == 65507, "to itself");
    check(sendto(s, huge, 3, 0, (void *)&own, sizeof own) == 3, "to itself again");
    check(ioctl(receiver, FIONREAD, &held) == 0 && held == 65507, "FIONREAD");
    check(read(receiver, huge, sizeof huge) == 65507 && read(receiver, huge, sizeof huge) == 3, "read");
    check(bind(other, (void *)&own, sizeof own) < 0 && errno == EADDRINUSE, "a port that is taken");
    check(shutdown(s, SHUT_RD) < 0 && errno == ENOTCONN, "shutdown");
}

int main(void) {
    int rank = atoi(getenv("COPPICE_RANK"));
    refused(0x0a800002 - rank);
    if (rank == 0)
        server();
    else
        client();
    printf("rank %d: datagrams are as on Linux\n", rank);
    return 0;
}
