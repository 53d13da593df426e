/* What bytes go through on one machine: pipes, pairs of sockets, counters. Nothing of it ever waits. */
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* What is known of both ends of a pipe or a pair: how much of it is taken in units that both kernels count alike. */
#define CHANNELS_MAX 64
static struct { unsigned pages; int type; } channels[CHANNELS_MAX];
static unsigned channels_used;

#define CHANNEL_KINDS (OF(PIPE_END) | OF(PAIR))

static void pipe_call(void) {
    int ends[2] = {-1, -1}, flags = CHOOSE(0, 0, O_CLOEXEC, O_NONBLOCK | O_CLOEXEC, 1, O_APPEND);
    void *where = chance(16) ? bad_pointer() : ends;
    if (count_live() > 14) { close_one(live_of(ANY_KIND)); return; }
    say("pipe2(%s, %#x)", where == ends ? "ends" : "bad", flags);
    if (gave(syscall(SYS_pipe2, where, flags | O_NONBLOCK)) != 0) return;
    say(" %d %d", ends[0], ends[1]);
    unsigned channel = channels_used++ % CHANNELS_MAX;
    channels[channel].pages = 0, channels[channel].type = 0;
    for (unsigned i = 0; i < 2; i++) {
        struct live *end = add_live(ends[i], PIPE_END);
        if (end) end->channel = channel;
    }
}

static void pair_call(void) {
    int ends[2] = {-1, -1}, domain = CHOOSE(AF_UNIX, AF_UNIX, AF_UNIX, AF_UNIX, AF_INET, 77);
    int type = CHOOSE(SOCK_STREAM, SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_RAW, 9), protocol = CHOOSE(0, 0, 0, 0, 1, 6);
    if (domain == AF_INET) type = SOCK_STREAM;
    if (count_live() > 14) { close_one(live_of(ANY_KIND)); return; }
    say("socketpair(%d, %d, %d)", domain, type, protocol);
    if (gave(syscall(SYS_socketpair, domain, type | SOCK_NONBLOCK, protocol, ends)) != 0) return;
    say(" %d %d", ends[0], ends[1]);
    unsigned channel = channels_used++ % CHANNELS_MAX;
    channels[channel].pages = 0, channels[channel].type = type;
    for (unsigned i = 0; i < 2; i++) {
        struct live *end = add_live(ends[i], PAIR);
        if (end) end->channel = channel;
    }
}

static void event_call(void) {
    unsigned start = CHOOSE(0u, 0u, 1u, 5u, ~0u);
    int flags = CHOOSE(0, EFD_SEMAPHORE, EFD_CLOEXEC, 2);
    say("eventfd2(%u, %#x)", start, flags);
    add_live(gave(syscall(SYS_eventfd2, start, flags | EFD_NONBLOCK)), EVENT);
}

/* Puts bytes in: not more than fits on any machine, for how much does depends on how it is cut. */
static void put_call(void) {
    struct live *one = live_of(CHANNEL_KINDS | OF(EVENT));
    if (one == NULL) { pipe_call(); return; }
    if (one->kind == EVENT) {
        uint64_t add = CHOOSE(0UL, 1UL, 2UL, 1000UL, ~0UL, ~0UL - 1);
        size_t length = CHOOSE(8u, 8u, 8u, 4u, 0u);
        say("write(%d, counter %lu, %zu)", one->number, add, length);
        memcpy(buffer, &add, 8);
        gave(write(one->number, buffer, length));
        return;
    }
    size_t length = CHOOSE(0u, 1u, 2u, 100u, 4095u, 4096u, 4097u, 8192u, 20000u);
    unsigned pages = (unsigned)(length + 4095) / 4096 + 1;
    if (channels[one->channel % CHANNELS_MAX].pages + pages > 12) length = 0, pages = 0;
    channels[one->channel % CHANNELS_MAX].pages += pages;
    fill(length);
    void *where = chance(20) ? bad_pointer() : buffer;
    unsigned how = one->kind == PAIR ? pick(3) : 0;
    if (how == 0) {
        say("write(%d, %s, %zu)", one->number, where == buffer ? "buffer" : "bad", length);
        gave(write(one->number, where, length));
    } else if (how == 1) {
        int flags = CHOOSE(0, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_MORE, 0x20000000);
        say("sendto(%d, %s, %zu, %#x)", one->number, where == buffer ? "buffer" : "bad", length, flags);
        gave(syscall(SYS_sendto, one->number, where, length, flags, NULL, 0));
    } else {
        struct iovec parts[2] = {{buffer, length / 2}, {buffer + length / 2, length - length / 2}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        say("sendmsg(%d, %zu)", one->number, length);
        gave(syscall(SYS_sendmsg, one->number, &message, 0));
    }
}

static void take_call(void) {
    struct live *one = live_of(CHANNEL_KINDS | OF(EVENT));
    if (one == NULL) { pair_call(); return; }
    size_t length = CHOOSE(0u, 1u, 8u, 100u, 4096u, 5000u, 65536u, 200000u);
    int keeps = one->kind == EVENT || (one->kind == PAIR && channels[one->channel % CHANNELS_MAX].type != SOCK_STREAM);
    void *where = chance(20) && (!keeps || may(LOST_COUNTS)) ? bad_pointer() : buffer;
    unsigned how = one->kind == PAIR ? pick(3) : 0;
    long got;
    memset(buffer, 0x33, 4096);
    if (how == 0) {
        say("read(%d, %s, %zu)", one->number, where == buffer ? "buffer" : "bad", length);
        got = read(one->number, where, length);
    } else if (how == 1) {
        int flags = CHOOSE(0, MSG_PEEK, MSG_TRUNC, MSG_PEEK | MSG_TRUNC, MSG_DONTWAIT, MSG_WAITALL | MSG_DONTWAIT);
        say("recvfrom(%d, %s, %zu, %#x)", one->number, where == buffer ? "buffer" : "bad", length, flags);
        got = syscall(SYS_recvfrom, one->number, where, length, flags, NULL, NULL);
    } else {
        struct iovec parts[2] = {{buffer, length / 2}, {buffer + length / 2, length - length / 2}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        int flags = CHOOSE(0, MSG_PEEK, MSG_TRUNC, MSG_DONTWAIT);
        say("recvmsg(%d, %zu, %#x)", one->number, length, flags);
        got = syscall(SYS_recvmsg, one->number, &message, flags);
        if (got >= 0) say(" flags %#x name %u", message.msg_flags, message.msg_namelen);
    }
    gave(got);
    if (got > 0 && (size_t)got <= length) say_bytes(got);
    if (one->kind != EVENT && got < 0 && errno == EAGAIN) channels[one->channel % CHANNELS_MAX].pages = 0;
}

/* Fills an empty pipe with whole pages until no more goes in: as many on all machines. */
static void fill_call(void) {
    int ends[2];
    if (pipe2(ends, O_NONBLOCK) != 0) { say("pipe2"); gave(-1); return; }
    long before = fcntl(ends[1], F_GETPIPE_SZ), step = CHOOSE(4096L, 8192L, 65536L, 131072L), total = 0, got;
    say("fill a pipe of %ld by %ld", before, step);
    while ((got = write(ends[1], buffer, (size_t)step)) > 0) total += got;
    gave(got);
    say(" after %ld", total);
    int held = -1;
    ioctl(ends[0], FIONREAD, &held);
    say(" held %d", held);
    close(ends[0]), close(ends[1]);
}

static void size_call(void) {
    struct live *one = live_of(OF(PIPE_END));
    int size = CHOOSE(4096, 1, 8192, 65536, 5000, 100000, 1048576, 1048577, 0, -1);
    if (one == NULL) { pipe_call(); return; }
    if (channels[one->channel % CHANNELS_MAX].pages > 0 && (unsigned)size < 65536 && !may(SLOTS_OF_PIPES)) size = 65536;
    say("fcntl(%d, F_SETPIPE_SZ, %d)", one->number, size);
    gave(fcntl(one->number, F_SETPIPE_SZ, size));
    say(" %d", fcntl(one->number, F_GETPIPE_SZ));
    /* As large as others are, so that what fits is known. */
    fcntl(one->number, F_SETPIPE_SZ, 65536);
}

static void held_call(void) {
    int held = -7;
    say("ioctl(");
    int number = some_descriptor(CHANNEL_KINDS | OF(FILE_KIND) | OF(TCP) | OF(UDP));
    unsigned command = CHOOSE((unsigned)FIONREAD, (unsigned)FIONREAD, 0x7777u, (unsigned)FIOCLEX, (unsigned)FIONCLEX);
    say(", %#x)", command);
    gave(ioctl(number, command, chance(20) ? bad_pointer() : &held));
    if (command == FIONREAD) say(" %d", held);
}

static void shutdown_call(void) {
    int how = CHOOSE(SHUT_RD, SHUT_WR, SHUT_WR, SHUT_RDWR, 3, -1);
    say("shutdown(");
    int number = some_descriptor(OF(PAIR));
    struct live *one = find_live(number);
    int datagrams = one && (one->kind == UDP || (one->kind == PAIR && (channels[one->channel].type & 2)));
    if (datagrams && (how == SHUT_RD || how == SHUT_RDWR) && !may(SHUT_DATAGRAMS)) how = SHUT_WR;
    say(", %d)", how);
    gave(shutdown(number, how));
}

static void channels_call(void) {
    switch (pick(20)) {
    case 0: pipe_call(); break;
    case 1: case 2: pair_call(); break;
    case 3: event_call(); break;
    case 4: case 5: case 6: case 7: case 8: put_call(); break;
    case 9: case 10: case 11: case 12: case 13: take_call(); break;
    case 14: if (chance(3)) { fill_call(); break; }
        /* fall through */
    case 15: size_call(); break;
    case 16: held_call(); break;
    case 17: shutdown_call(); break;
    default: {
        struct live *one = live_of(CHANNEL_KINDS);
        if (one) close_one(one); else pair_call();
    }
    }
}
