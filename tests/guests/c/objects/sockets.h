/* Sockets, connected with themselves or waiting for somebody. */
#include "common.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

static void make_pairs(int count, const char *way) {
    int type = strcmp(way, "stream") == 0 ? SOCK_STREAM : strcmp(way, "packet") == 0 ? SOCK_SEQPACKET : SOCK_DGRAM;
    int ends[2];
    for (int i = 0; i < count && socketpair(AF_UNIX, type, 0, ends) == 0; i++) {
        keep(ends[0]);
        keep(ends[1]);
        fill(ends[0]);
        fill(ends[1]);
    }
}

/* A socket that listens on a port of this node's own, or -1. */
static int listens(struct sockaddr_in *at) {
    socklen_t length = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (listener >= 0 && (bind(listener, (void *)at, length) != 0 || listen(listener, 64) != 0
                          || getsockname(listener, (void *)at, &length) != 0)) {
        close(listener);
        return -1;
    }
    return listener;
}

static void make_tcp(int count, const char *way) {
    struct sockaddr_in at;
    int only_listen = strcmp(way, "listen") == 0;
    int listener = listens(&at);
    if (!keep(listener)) return;
    for (int i = 0; i < count; i++) {
        if (only_listen) {
            if (!keep(listens(&at))) return;
            continue;
        }
        int caller = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (!keep(caller)) return;
        connect(caller, (void *)&at, sizeof at);
        /* The handshake takes a moment. */
        int other = -1;
        for (int tries = 0; tries < 20 && other < 0; tries++)
            if ((other = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) < 0) hold(1, "");
        if (!keep(other)) return;
        if (strcmp(way, "full") == 0) fill(caller), fill(other);
    }
}

static void make_udp(int count, const char *way) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < count; i++) {
        socklen_t length = sizeof at;
        int one = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        at.sin_port = 0;
        if (!keep(one) || bind(one, (void *)&at, length) != 0 || getsockname(one, (void *)&at, &length) != 0) return;
        static const char bytes[1400];
        for (int sent = 0; strcmp(way, "full") == 0 && sent < 64; sent++)
            if (sendto(one, bytes, sizeof bytes, 0, (void *)&at, length) < 0) break;
    }
}

static void make_local(int count, const char *way) {
    int type = strcmp(way, "stream") == 0 ? SOCK_STREAM : SOCK_DGRAM;
    for (int i = 0; i < count; i++) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        int length = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "objects-%d-%d", (int)getpid(), i);
        socklen_t bytes = (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 + (socklen_t)length;
        int one = socket(AF_UNIX, type | SOCK_NONBLOCK, 0), other = socket(AF_UNIX, type | SOCK_NONBLOCK, 0);
        int both = keep(one) & keep(other);
        if (!both || bind(one, (void *)&at, bytes) != 0) return;
        if (type == SOCK_STREAM) listen(one, 16);
        /* Nobody accepts: what is written waits in the queue. */
        if (connect(other, (void *)&at, bytes) == 0) fill(other);
    }
}
