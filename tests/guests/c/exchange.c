/* Two ranks on nodes of their own exchange BYTES, both ways at once, and look at every byte. They meet as MPICH's
   processes do: sockets bound to 0.0.0.0:0 whose name is asked for before listen, connections that are made without
   waiting, poll without a time limit and with entries that are no descriptors. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define PORT 5000
#define PART 65536

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

static int prepared(void) {
    int one = 1, s = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
    check(s >= 0, "socket");
    check(fcntl(s, F_SETFL, fcntl(s, F_GETFL, 0) | O_NONBLOCK) == 0, "fcntl");
    check(setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0, "TCP_NODELAY");
    return s;
}

/* Said of a listener that nobody can know of: at PORT the other may have been first. */
static void look_for_nobody(void) {
    struct sockaddr_in here = name(INADDR_ANY, 0);
    socklen_t length = sizeof here;
    int listener = prepared();
    check(bind(listener, (void *)&here, sizeof here) == 0, "bind to any port");
    check(getsockname(listener, (void *)&here, &length) == 0 && here.sin_port != 0, "getsockname of any port");
    check(listen(listener, SOMAXCONN) == 0, "listen at any port");
    check(accept(listener, 0, 0) < 0 && errno == EAGAIN, "nobody there yet");
    check(close(listener) == 0, "close");
}

static int accepted(void) {
    struct sockaddr_in here = name(INADDR_ANY, PORT);
    socklen_t length = sizeof here;
    int one = 1, listener = prepared();
    check(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0, "SO_REUSEADDR");
    check(bind(listener, (void *)&here, sizeof here) == 0, "bind");
    check(getsockname(listener, (void *)&here, &length) == 0 && ntohs(here.sin_port) == PORT, "getsockname");
    check(listen(listener, SOMAXCONN) == 0, "listen");
    struct pollfd entries[3] = {{-1, POLLIN, 0}, {listener, POLLIN, 0}, {-1, POLLOUT, 0}};
    check(poll(entries, 3, -1) == 1 && entries[1].revents == POLLIN, "poll for a connection");
    struct sockaddr_in peer;
    length = sizeof peer;
    int s = accept(listener, (void *)&peer, &length);
    check(s >= 0 && length == sizeof peer, "accept");
    printf("accepted one of %s\n", inet_ntoa(peer.sin_addr));
    check(close(listener) == 0, "close");
    check(fcntl(s, F_SETFL, fcntl(s, F_GETFL, 0) | O_NONBLOCK) == 0, "fcntl");
    return s;
}

static int connected(unsigned address) {
    for (;;) {
        struct sockaddr_in there = name(address, PORT), peer;
        socklen_t length = sizeof peer;
        int error = 0, s = prepared();
        check(connect(s, (void *)&there, sizeof there) < 0 && errno == EINPROGRESS, "connect");
        struct pollfd entries[2] = {{-1, POLLIN, 0}, {s, POLLOUT, 0}};
        check(poll(entries, 2, -1) == 1, "poll for the connection");
        if (getpeername(s, (void *)&peer, &length) == 0) {
            check(entries[1].revents == POLLOUT, "POLLOUT");
            check(memcmp(&peer, &there, sizeof peer) == 0, "getpeername");
            printf("connected to %s\n", inet_ntoa(peer.sin_addr));
            return s;
        }
        check(errno == ENOTCONN && entries[1].revents & POLLERR, "getpeername");
        length = sizeof error;
        check(getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == ECONNREFUSED, "SO_ERROR");
        close(s);
        usleep(20000);
    }
}

static unsigned char part_of(long at, int rank) {
    return (unsigned char)(at * 31 + at / 257 + rank);
}

int main(int argc, char **argv) {
    int rank = atoi(getenv("COPPICE_RANK"));
    long bytes = atol(argv[1]), sent = 0, received = 0;
    static unsigned char out[PART], in[PART];
    if (rank == 0)
        look_for_nobody();
    int s = rank == 0 ? accepted() : connected(0x0a800001);
    while (sent < bytes || received < bytes) {
        struct pollfd entry = {s, POLLIN | (sent < bytes ? POLLOUT : 0), 0};
        check(poll(&entry, 1, -1) == 1, "poll");
        if (entry.revents & POLLOUT) {
            long count = bytes - sent < PART ? bytes - sent : PART;
            for (long i = 0; i < count; i++)
                out[i] = part_of(sent + i, rank);
            struct iovec two[2] = {{out, count / 3}, {out + count / 3, count - count / 3}};
            long done = writev(s, two, 2);
            check(done > 0, "writev");
            sent += done;
        }
        if (entry.revents & POLLIN) {
            struct iovec two[2] = {{in, 1000}, {in + 1000, PART - 1000}};
            long done = readv(s, two, 2);
            check(done > 0, "readv");
            for (long i = 0; i < done; i++)
                check(in[i] == part_of(received + i, 1 - rank), "a byte that was sent");
            received += done;
        }
    }
    check(shutdown(s, SHUT_WR) == 0, "shutdown");
    struct pollfd entry = {s, POLLIN, 0};
    check(poll(&entry, 1, -1) == 1 && read(s, in, PART) == 0, "the end");
    printf("rank %d: %ld bytes each way\n", rank, received);
    return 0;
}
