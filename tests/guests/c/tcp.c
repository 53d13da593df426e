/* Plain TCP between two machines: messages of one byte to and fro, then a stream one way. `cargo xtask bench net`.
   Rank 0 waits, rank 1 calls and prints. Arguments: address of rank 0, round trips, MiB of the stream. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT 5001
#define PIECE (128 * 1024)

static char piece[PIECE];

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* All bytes of a piece, or as many as there are until the other end closes. */
static size_t receive(int socket, size_t bytes) {
    size_t got = 0;
    while (got < bytes) {
        ssize_t n = read(socket, piece + got, bytes - got);
        if (n < 0) fail("read");
        if (n == 0) break;
        got += n;
    }
    return got;
}

static void transmit(int socket, size_t bytes) {
    for (size_t sent = 0; sent < bytes;) {
        ssize_t n = write(socket, piece + sent, bytes - sent);
        if (n <= 0) fail("write");
        sent += n;
    }
}

/* The connection between the two: rank 1 calls until rank 0 listens. */
static int meet(int number, const char *address) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int one = 1, call = -1;
    if (number == 0) {
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1)) fail("listen");
        if ((call = accept(listener, NULL, NULL)) < 0) fail("accept");
        close(listener);
    } else {
        inet_pton(AF_INET, address, &at.sin_addr);
        for (int tries = 0; call < 0; tries++) {
            call = socket(AF_INET, SOCK_STREAM, 0);
            if (!connect(call, (struct sockaddr *)&at, sizeof at)) break;
            if (tries == 1000) fail("connect");
            close(call);
            call = -1;
            usleep(20000);
        }
    }
    setsockopt(call, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return call;
}

int main(int argc, char **argv) {
    const char *rank = getenv("COPPICE_RANK");
    if (argc != 4 || !rank) return 2;
    int number = atoi(rank);
    const char *address = argv[1];
    long trips = atol(argv[2]), mebibytes = atol(argv[3]);
    int call = meet(number, address);
    double begun = 0;
    for (long n = -trips / 10; n < trips; n++) {
        if (n == 0) begun = now();
        if (number == 1) transmit(call, 1);
        if (receive(call, 1) != 1) fail("the other end has gone");
        if (number == 0) transmit(call, 1);
    }
    double half = (now() - begun) / trips / 2;
    begun = now();
    size_t bytes = 0;
    if (number == 1) {
        for (; bytes < (size_t)mebibytes << 20; bytes += PIECE) transmit(call, PIECE);
        /* Until the last byte has been read. */
        shutdown(call, SHUT_WR);
        if (receive(call, 1) != 1) fail("the stream was not received");
        printf("tcp-half-round-trip %.2f us\n", half * 1e6);
        printf("tcp-throughput %.2f MiB/s\n", bytes / (now() - begun) / (1 << 20));
    } else {
        for (size_t n; (n = receive(call, PIECE)) > 0;) bytes += n;
        if (bytes != (size_t)mebibytes << 20) fail("the stream is too short");
        transmit(call, 1);
    }
    close(call);
    return 0;
}
