/* A rank of one of two jobs, A and B, that run at the same time: speaks with the other rank of its job, tries to reach those of
   the other job, and says what it heard. `isolation JOB ADDRESS…`: the addresses are none of the job's. All ranks have the same
   ports. They meet by files in their root. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STREAMS 6000
#define DATAGRAMS 6001

static const char *job;
static int rank;

static void check(int is_right, const char *what) {
    if (is_right) return;
    fprintf(stderr, "%s, rank %d: %s: %s\n", job, rank, what, strerror(errno));
    exit(1);
}

static struct sockaddr_in at(const char *address, int port) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_aton(address, &name.sin_addr);
    return name;
}

/* Waits until all ranks of both jobs have come so far. */
static void meet(const char *where) {
    char path[64];
    snprintf(path, sizeof path, "/%s.%d.%s", job, rank, where);
    check(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0, path);
    for (int other = 0; other < 4; other++) {
        snprintf(path, sizeof path, "/%c.%d.%s", "AB"[other / 2], other % 2, where);
        while (access(path, F_OK)) usleep(20000);
    }
}

static void cannot_reach(const char *address, int why) {
    struct sockaddr_in stream = at(address, STREAMS), datagram = at(address, DATAGRAMS);
    int s = socket(AF_INET, SOCK_STREAM, 0), d = socket(AF_INET, SOCK_DGRAM, 0);
    check(connect(s, (void *)&stream, sizeof stream) < 0 && errno == why, address);
    check(connect(d, (void *)&datagram, sizeof datagram) < 0 && errno == why, address);
    check(sendto(d, job, 1, 0, (void *)&datagram, sizeof datagram) < 0 && errno == why, address);
    check(bind(s, (void *)&stream, sizeof stream) < 0 && errno == EADDRNOTAVAIL, address);
    close(s);
    close(d);
}

int main(int argc, char **argv) {
    static const char *const nodes[] = {"10.128.0.1", "10.128.0.2"};
    job = argv[1], rank = atoi(getenv("COPPICE_RANK"));
    int streams = socket(AF_INET, SOCK_STREAM, 0), datagrams = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    struct sockaddr_in here = at(nodes[rank], STREAMS), there = at(nodes[!rank], STREAMS), all = at("10.255.255.255", DATAGRAMS);
    check(bind(streams, (void *)&here, sizeof here) == 0 && listen(streams, 9) == 0, "listen");
    here.sin_port = htons(DATAGRAMS), here.sin_addr.s_addr = INADDR_ANY;
    check(bind(datagrams, (void *)&here, sizeof here) == 0, "bind");
    check(setsockopt(datagrams, SOL_SOCKET, SO_BROADCAST, &one, sizeof one) == 0, "SO_BROADCAST");
    meet("listens");

    /* With the other rank of the job. */
    int s = socket(AF_INET, SOCK_STREAM, 0);
    char name = 0;
    check(connect(s, (void *)&there, sizeof there) == 0 && write(s, job, 1) == 1, "connect");
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    int accepted = accept(streams, (void *)&peer, &length);
    check(accepted >= 0 && peer.sin_addr.s_addr == there.sin_addr.s_addr, "accept");
    check(read(accepted, &name, 1) == 1 && name == *job, "read");
    there.sin_port = htons(DATAGRAMS);
    check(sendto(datagrams, job, 1, 0, (void *)&there, sizeof there) == 1, "sendto");
    check(sendto(datagrams, job, 1, 0, (void *)&all, sizeof all) == 1, "to all");

    /* With everybody else. */
    for (int i = 2; i < argc; i++) cannot_reach(argv[i], ENETUNREACH);
    cannot_reach("10.128.0.3", EHOSTUNREACH);
    cannot_reach("10.191.255.254", EHOSTUNREACH);
    meet("tried");

    int heard = 0, others = 0;
    struct pollfd entry = {datagrams, POLLIN, 0};
    while (poll(&entry, 1, heard < 2 ? 10000 : 200) == 1) {
        check(recvfrom(datagrams, &name, 1, 0, (void *)&peer, &length) == 1, "recvfrom");
        if (name == *job && peer.sin_addr.s_addr == there.sin_addr.s_addr) heard++;
        else others++;
    }
    fcntl(streams, F_SETFL, O_NONBLOCK);
    check(accept(streams, 0, 0) < 0 && errno == EAGAIN, "a stranger's connection");
    printf("%s, rank %d at %s: heard %d, of others %d\n", job, rank, nodes[rank], heard, others);
    return 0;
}
