/* Sockets of the network, from this machine to itself: connections and datagrams. What is on its way is awaited before
   anything is asked that depends on it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#define CARRY_MS 100

static struct sockaddr_in address_of(unsigned host, unsigned port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(host)}};
}

static unsigned port_of(int number) {
    struct sockaddr_in name = {0};
    socklen_t length = sizeof name;
    return getsockname(number, (void *)&name, &length) == 0 && name.sin_family == AF_INET ? ntohs(name.sin_port) : 0;
}

static int type_of(int number) {
    int type = 0;
    socklen_t length = sizeof type;
    return getsockopt(number, SOL_SOCKET, SO_TYPE, &type, &length) == 0 ? type : 0;
}

/* An address that `asked` was given, in symbols: which live socket of its type has the port, as those of connections and
   of datagrams may be the same. */
static void say_name(int asked, const struct sockaddr_in *name, socklen_t length) {
    if (length < sizeof *name) { say(" {%u}", length); return; }
    unsigned port = ntohs(name->sin_port);
    int type = type_of(asked);
    const char *whose = port ? "some" : "none";
    char text[32];
    for (unsigned i = 0; port && i < LIVE_MAX; i++)
        if (live[i].in_use && (OF(live[i].kind) & (OF(FRESH) | OF(TCP) | OF(UDP) | OF(LISTENER))) && type_of(live[i].number) == type
            && port_of(live[i].number) == port) {
            sprintf(text, "of %d", live[i].number);
            whose = text;
            break;
        }
    say(" {%d %s port %s}", name->sin_family, inet_ntoa(name->sin_addr), whose);
}

static void wait_for(int number, short events) {
    struct pollfd entry = {number, events, 0};
    poll(&entry, 1, CARRY_MS);
}

static void socket_call(void) {
    int domain = CHOOSE(AF_INET, AF_INET, AF_INET, AF_INET, 77), type = CHOOSE(SOCK_STREAM, SOCK_DGRAM, SOCK_DGRAM, 9);
    int protocol = CHOOSE(0, 0, 0, IPPROTO_TCP, IPPROTO_UDP);
    if (count_live() > 14) { close_one(live_of(ANY_KIND)); return; }
    say("socket(%d, %d, %d)", domain, type, protocol);
    add_live(gave(syscall(SYS_socket, domain, type | SOCK_NONBLOCK, protocol)), type == SOCK_STREAM ? FRESH : UDP);
}

static void bind_call(void) {
    struct sockaddr_in name = address_of(CHOOSE(INADDR_LOOPBACK, INADDR_LOOPBACK, INADDR_ANY), 0);
    socklen_t length = CHOOSE(sizeof name, sizeof name, sizeof name, 3u, 0u);
    if (chance(16)) name.sin_family = 77;
    say("bind(");
    int number = some_descriptor(OF(UDP) | OF(FRESH));
    void *where = chance(24) ? bad_pointer() : &name;
    say(", %s, %u%s)", inet_ntoa(name.sin_addr), length, where == &name ? name.sin_family == AF_INET ? "" : " family" : " bad");
    gave(bind(number, where, length));
}

static void listen_call(void) {
    say("listen(");
    int number = some_descriptor(OF(FRESH));
    say(")");
    struct live *one = find_live(number);
    if (gave(listen(number, 8)) == 0 && one) one->kind = LISTENER;
}

/* A connection to a listener, made and awaited. */
static void connect_call(void) {
    struct live *listener = live_of(OF(LISTENER));
    if (listener == NULL) {
        int number = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        struct sockaddr_in name = address_of(INADDR_LOOPBACK, 0);
        bind(number, (void *)&name, sizeof name);
        say("make a listener");
        gave(listen(number, 8) == 0 ? number : -1);
        add_live(number, LISTENER);
        return;
    }
    if (count_live() > 14) { close_one(live_of(ANY_KIND)); return; }
    int listens = 0;
    socklen_t told = sizeof listens;
    getsockopt(listener->number, SOL_SOCKET, SO_ACCEPTCONN, &listens, &told);
    /* Nobody listens there any more. */
    if (!listens && !may(CONNECTED_AT_ONCE)) { close_one(listener); return; }
    struct sockaddr_in name = address_of(INADDR_LOOPBACK, port_of(listener->number));
    struct live *one = chance(2) ? live_of(OF(FRESH)) : NULL;
    int number = one ? one->number : socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    say("connect(%d, listener %d)", number, listener->number);
    long made = connect(number, (void *)&name, sizeof name);
    int refused = made != 0 && errno != EINPROGRESS;
    if (refused) gave(made);
    else if (may(CONNECTED_AT_ONCE)) gave(made);
    if (one == NULL) add_live(number, TCP); else one->kind = TCP;
    wait_for(number, POLLOUT);
    int error = -1;
    socklen_t length = sizeof error;
    getsockopt(number, SOL_SOCKET, SO_ERROR, &error, &length);
    say(" then %d", error);
    /* The first call after one that did not wait says that it came to something; one that was made at once has said it. */
    if (made != 0 && !refused && error == 0 && !may(CONNECTED_AT_ONCE)) connect(number, (void *)&name, sizeof name);
    {
        wait_for(listener->number, POLLIN);
        struct sockaddr_in peer = {0};
        length = sizeof peer;
        long other = syscall(SYS_accept4, listener->number, &peer, &length, CHOOSE(SOCK_NONBLOCK, SOCK_NONBLOCK | SOCK_CLOEXEC));
        say(" accepted");
        gave(other);
        if (other >= 0) {
            say_name((int)other, &peer, length);
            add_live(other, TCP);
        }
    }
}

static void accept_call(void) {
    int flags = CHOOSE(SOCK_NONBLOCK, SOCK_NONBLOCK | 1);
    say("accept4(");
    int number = some_descriptor(OF(LISTENER) | OF(UDP));
    say(", %#x)", flags);
    add_live(gave(syscall(SYS_accept4, number, NULL, NULL, flags)), TCP);
}

static void name_call(void) {
    struct sockaddr_in name = {0};
    socklen_t length = CHOOSE(sizeof name, sizeof name, 4u, 0u, 100u);
    int peer = chance(2);
    say(peer ? "getpeername(" : "getsockname(");
    int number = some_descriptor(OF(FRESH) | OF(TCP) | OF(UDP) | OF(LISTENER));
    say(", %u)", length);
    struct live *one = find_live(number);
    if (one && one->kind == PAIR) length = 2;
    static char room[128];
    socklen_t given = length;
    long result = gave(peer ? getpeername(number, (void *)room, &length) : getsockname(number, (void *)room, &length));
    if (result == 0 && given >= sizeof name) {
        memcpy(&name, room, sizeof name);
        say_name(number, &name, length);
    } else {
        say(" %u", length);
    }
}

/* Closes a connection that was reset. */
static void forget_reset(long result, int number) {
    struct live *one = find_live(number);
    if (result >= 0 || one == NULL || one->kind != TCP || (errno != ECONNRESET && errno != EPIPE) || may(AFTER_RESET)) return;
    say(" ");
    close_one(one);
}

static void send_call(void) {
    size_t length = CHOOSE(0u, 1u, 2u, 100u, 1000u, 1400u, 5000u);
    struct live *target = live_of(OF(UDP));
    fill(length);
    int named = chance(2) && target != NULL;
    struct sockaddr_in name = address_of(INADDR_LOOPBACK, named ? port_of(target->number) : 0);
    int flags = CHOOSE(0, 0, MSG_DONTWAIT, MSG_NOSIGNAL);
    say("sendto(");
    int number = some_descriptor(named ? OF(UDP) : OF(TCP) | OF(UDP));
    say(", %zu, %#x", length, flags);
    if (named) say(", %d", target->number);
    say(")");
    long sent = gave(syscall(SYS_sendto, number, buffer, length, flags, named ? &name : NULL, named ? sizeof name : 0));
    forget_reset(sent, number);
    if (named && sent >= 0 && name.sin_port) wait_for(target->number, POLLIN);
}

/* Takes what is there after both ends of all connections are at rest. */
static void receive_call(void) {
    size_t length = CHOOSE(0u, 1u, 50u, 5000u, 100000u);
    int flags = CHOOSE(0, 0, MSG_PEEK, MSG_DONTWAIT, MSG_TRUNC);
    struct live *one = live_of(OF(TCP) | OF(UDP));
    struct sockaddr_in from = {0};
    socklen_t from_length = sizeof from;
    if (one == NULL) { socket_call(); return; }
    say("recvfrom(%d, %zu, %#x)", one->number, length, flags);
    struct pollfd entry = {one->number, POLLIN, 0};
    poll(&entry, 1, 0);
    memset(buffer, 0, 64);
    long got = gave(syscall(SYS_recvfrom, one->number, buffer, length, flags, &from, &from_length));
    forget_reset(got, one->number);
    if (got > 0 && (size_t)got <= length && !(one->kind == TCP && (flags & MSG_TRUNC))) say_bytes(got);
    if (got >= 0 && one->kind == UDP) say_name(one->number, &from, from_length);
}

static void option_call(void) {
    static const struct { int level, name; const char *text; } options[] = {
        {SOL_SOCKET, SO_TYPE, "SO_TYPE"}, {SOL_SOCKET, SO_REUSEADDR, "SO_REUSEADDR"}, {SOL_SOCKET, SO_KEEPALIVE, "SO_KEEPALIVE"},
        {SOL_SOCKET, SO_ERROR, "SO_ERROR"}, {SOL_SOCKET, SO_ACCEPTCONN, "SO_ACCEPTCONN"}, {SOL_SOCKET, SO_DOMAIN, "SO_DOMAIN"},
        {SOL_SOCKET, SO_PROTOCOL, "SO_PROTOCOL"}, {IPPROTO_TCP, TCP_NODELAY, "TCP_NODELAY"}, {SOL_SOCKET, SO_BROADCAST, "SO_BROADCAST"},
        {SOL_SOCKET, 7777, "7777"}, {7777, 1, "7777/1"}, {IPPROTO_TCP, TCP_KEEPIDLE, "TCP_KEEPIDLE"},
        {IPPROTO_TCP, TCP_KEEPINTVL, "TCP_KEEPINTVL"}, {IPPROTO_TCP, TCP_KEEPCNT, "TCP_KEEPCNT"}, {IPPROTO_TCP, TCP_CORK, "TCP_CORK"},
        {SOL_SOCKET, SO_OOBINLINE, "SO_OOBINLINE"}, {SOL_SOCKET, SO_DONTROUTE, "SO_DONTROUTE"}, {SOL_SOCKET, SO_PRIORITY, "SO_PRIORITY"},
        {SOL_SOCKET, SO_RCVLOWAT, "SO_RCVLOWAT"}, {SOL_SOCKET, SO_SNDLOWAT, "SO_SNDLOWAT"}, {SOL_SOCKET, SO_REUSEPORT, "SO_REUSEPORT"},
        {IPPROTO_IP, IP_TTL, "IP_TTL"}, {IPPROTO_IP, IP_TOS, "IP_TOS"}, {SOL_SOCKET, SO_LINGER, "SO_LINGER"},
    };
    unsigned which = pick(sizeof options / sizeof *options);
    int value = CHOOSE(0, 1, 1, 5, -1, 300), sets = chance(2);
    if (options[which].name == SO_LINGER && options[which].level == SOL_SOCKET) value = 0;
    socklen_t length = CHOOSE(4u, 4u, 4u, 8u, 1u, 0u);
    static char room[64];
    memset(room, 0, sizeof room);
    memcpy(room, &value, 4);
    say("%s(", sets ? "setsockopt" : "getsockopt");
    int number = some_descriptor(OF(FRESH) | OF(TCP) | OF(UDP) | OF(LISTENER) | OF(PAIR));
    say(", %s, %d, %u)", options[which].text, value, length);
    if (sets) {
        gave(setsockopt(number, options[which].level, options[which].name, room, length));
    } else if (gave(getsockopt(number, options[which].level, options[which].name, room, &length)) == 0) {
        memcpy(&value, room, 4);
        say(" %d %u", value, length);
    }
}

static void end_call(void) {
    int how = CHOOSE(SHUT_RD, SHUT_WR, SHUT_WR, SHUT_RDWR, 7);
    say("shutdown(");
    int number = some_descriptor(OF(TCP));
    struct live *one = find_live(number);
    int datagrams = one && (one->kind == UDP || (one->kind == PAIR && (channels[one->channel].type & 2)));
    if (datagrams && (how == SHUT_RD || how == SHUT_RDWR) && !may(SHUT_DATAGRAMS)) how = SHUT_WR;
    say(", %d)", how);
    gave(shutdown(number, how));
}

/* A datagram socket gets a peer. */
static void peer_call(void) {
    struct live *target = live_of(OF(UDP));
    if (target == NULL) { socket_call(); return; }
    unsigned port = port_of(target->number);
    struct sockaddr_in name = address_of(INADDR_LOOPBACK, port);
    if (port == 0) { socket_call(); return; }
    say("connect(");
    int number = some_descriptor(OF(UDP));
    struct live *one = find_live(number);
    if (one && one->kind != UDP) number = -1, say("!");
    say(", to %d)", target->number);
    gave(connect(number, (void *)&name, sizeof name));
}

/* Several messages at once. */
static void messages_call(void) {
    static unsigned char bytes[4][128];
    struct live *one = live_of(OF(PAIR));
    struct mmsghdr messages[4];
    struct iovec parts[4];
    unsigned count = CHOOSE(0u, 1u, 2u, 4u), sends = chance(2);
    if (one == NULL) { pair_call(); return; }
    memset(messages, 0, sizeof messages);
    if (channels[one->channel % CHANNELS_MAX].pages + 4 > 12 && sends) count = 0;
    if (sends) channels[one->channel % CHANNELS_MAX].pages += count;
    for (unsigned i = 0; i < 4; i++) {
        parts[i] = (struct iovec){chance(30) && (sends || may(LOST_COUNTS)) ? bad_pointer() : bytes[i], pick(100)};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
        memset(bytes[i], (int)i + 'a', sizeof bytes[i]);
    }
    say("%s(%d, [%zu%s %zu%s %zu%s %zu%s], %u)", sends ? "sendmmsg" : "recvmmsg", one->number, parts[0].iov_len, parts[0].iov_base == bytes[0] ? "" : "!",
        parts[1].iov_len, parts[1].iov_base == bytes[1] ? "" : "!", parts[2].iov_len, parts[2].iov_base == bytes[2] ? "" : "!",
        parts[3].iov_len, parts[3].iov_base == bytes[3] ? "" : "!", count);
    long done = gave(sends ? syscall(SYS_sendmmsg, one->number, messages, count, 0) : syscall(SYS_recvmmsg, one->number, messages, count, 0, NULL));
    for (long i = 0; i < done; i++) say(" %u:%#x", messages[i].msg_len, messages[i].msg_hdr.msg_flags);
}

/* What was sent has arrived, what was closed is known to be: for that, a connection of its own goes back and forth. */
static void settle(void) {
    static const struct timespec moment = {0, 1000000};
    if (live_of(OF(TCP))) nanosleep(&moment, NULL);
}

static void sockets_call(void) {
    settle();
    switch (pick(20)) {
    case 0: socket_call(); break;
    case 1: case 2: bind_call(); break;
    case 3: listen_call(); break;
    case 4: case 5: case 6: connect_call(); break;
    case 7: accept_call(); break;
    case 8: name_call(); break;
    case 9: case 10: case 11: send_call(); break;
    case 12: case 13: case 14: receive_call(); break;
    case 15: option_call(); break;
    case 16: end_call(); break;
    case 17: poll_call(); break;
    case 18: switch (pick(3)) { case 0: held_call(); break; case 1: peer_call(); break; default: messages_call(); } break;
    default: {
        struct live *one = live_of(OF(FRESH) | OF(TCP) | OF(UDP) | OF(LISTENER));
        if (one) close_one(one); else socket_call();
    }
    }
}
