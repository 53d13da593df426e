/* poll, select and epoll over whatever is open; nobody waits. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

static void poll_call(void) {
    struct pollfd entries[6];
    unsigned count = pick(6);
    say("poll(");
    for (unsigned i = 0; i < count; i++) {
        entries[i].fd = some_descriptor(ANY_KIND);
        entries[i].events = CHOOSE((short)(POLLIN | POLLOUT), POLLIN, POLLOUT, 0, 0x7fff, POLLRDHUP | POLLIN, POLLPRI);
        if (!may(BANDS)) entries[i].events &= ~(POLLRDBAND | POLLWRBAND);
        entries[i].revents = 0x55;
        say(":%#x ", entries[i].events);
    }
    void *where = chance(24) ? bad_pointer() : entries;
    say("%s)", where == entries ? "" : "bad");
    if (gave(syscall(SYS_poll, where, count, 0)) >= 0)
        for (unsigned i = 0; i < count; i++) say(" %#x", entries[i].revents);
}

static void select_call(void) {
    fd_set sets[3];
    int given[3], numbers = CHOOSE(0, 5, 12, 30, 64, -1);
    say("select(%d", numbers);
    for (unsigned i = 0; i < 3; i++) {
        FD_ZERO(&sets[i]);
        given[i] = chance(2);
        unsigned members = given[i] ? pick(4) : 0;
        for (unsigned j = 0; j < members; j++) {
            struct live *one = live_of(ANY_KIND);
            int number = one && !chance(20) ? one->number : CHOOSE(0, 1, 40, 50);
            if (number < 64 && number > 1) FD_SET(number, &sets[i]), say(" %c%d", "rwx"[i], number);
        }
    }
    say(")");
    struct timeval at_once = {0, 0};
    long ready = syscall(SYS_select, numbers, given[0] ? &sets[0] : NULL, given[1] ? &sets[1] : NULL, given[2] ? &sets[2] : NULL, &at_once);
    if (gave(ready) < 0) return;
    for (unsigned i = 0; i < 3; i++)
        for (int number = 0; given[i] && number < 64; number++)
            if (FD_ISSET(number, &sets[i])) say(" %c%d", "rwx"[i], number);
}

static void make_poller_call(void) {
    if (count_live() > 14) { close_one(live_of(ANY_KIND)); return; }
    if (chance(4)) {
        int size = CHOOSE(1, 0, -1, 100);
        say("epoll_create(%d)", size);
        add_live(gave(syscall(SYS_epoll_create, size)), POLLER);
    } else {
        int flags = CHOOSE(0, EPOLL_CLOEXEC, 1);
        say("epoll_create1(%#x)", flags);
        add_live(gave(syscall(SYS_epoll_create1, flags)), POLLER);
    }
}

static void control_call(void) {
    int operation = CHOOSE(EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, 9);
    struct epoll_event event = {.events = CHOOSE((unsigned)EPOLLIN, EPOLLIN | EPOLLOUT, EPOLLOUT | EPOLLET, EPOLLIN | EPOLLONESHOT,
                                                 EPOLLIN | EPOLLET, 0u, EPOLLRDHUP | EPOLLIN, EPOLLIN | EPOLLEXCLUSIVE)};
    say("epoll_ctl(");
    int poller = some_descriptor(OF(POLLER));
    say(", %d, ", operation);
    int number = some_descriptor(chance(4) ? OF(POLLER) : ~(OF(FILE_KIND) | OF(DIRECTORY)));
    struct live *one = find_live(number);
    if (one && one->kind == POLLER && !may(EDGES_OF_POLLERS)) event.events &= ~(unsigned)EPOLLET;
    event.data.u64 = (uint64_t)number * 1000003;
    void *where = chance(24) ? bad_pointer() : &event;
    say(", %#x%s)", event.events, where == &event ? "" : " bad");
    gave(syscall(SYS_epoll_ctl, poller, operation, number, where));
}

static int by_data(const void *one, const void *other) {
    uint64_t a = ((const struct epoll_event *)one)->data.u64, b = ((const struct epoll_event *)other)->data.u64;
    return a < b ? -1 : a > b;
}

static void wait_call(void) {
    static struct epoll_event events[64];
    int room = CHOOSE(64, 64, 64, 64, 0, -1);
    say("epoll_wait(");
    int poller = some_descriptor(OF(POLLER));
    void *where = chance(24) ? bad_pointer() : events;
    if (room <= 0 && find_live(poller) == NULL && !may(TWO_FAULTS)) room = 64;
    say(", %d%s)", room, where == events ? "" : " bad");
    long count = gave(syscall(SYS_epoll_wait, poller, where, room, 0));
    if (count <= 0 || where != events) return;
    qsort(events, (size_t)count, sizeof *events, by_data);
    for (long i = 0; i < count; i++) say(" %ld:%#x", (long)(events[i].data.u64 / 1000003), events[i].events);
}

/* The same calls with a mask for as long as they wait. What is pending and let through ends them. */
static void masked_call(void) {
    static struct epoll_event events[8];
    struct timespec at_once = {0, chance(16) ? 1000000000 : 0};
    uint64_t set = some_set();
    size_t size = set_size();
    void *where = chance(4) ? NULL : chance(24) ? bad_pointer() : &set;
    struct pollfd entry = {-1, POLLIN, 0};
    unsigned which = pick(3);
    say("%s(", which == 0 ? "ppoll" : which == 1 ? "pselect6" : "epoll_pwait");
    if (which == 2) entry.fd = some_descriptor(OF(POLLER));
    say(", %s%#lx, %zu, %ld)", where == &set ? "" : where ? "bad " : "none ", set, size, at_once.tv_nsec);
    struct { void *set; size_t size; } mask = {where, size};
    gave(which == 0   ? syscall(SYS_ppoll, &entry, 1, &at_once, where, size)
         : which == 1 ? syscall(SYS_pselect6, 0, NULL, NULL, NULL, &at_once, &mask)
                      : syscall(SYS_epoll_pwait, entry.fd, events, 8, 0, where, size));
}

static void readiness_call(void) {
    switch (pick(16)) {
    case 0: case 1: case 2: poll_call(); break;
    case 3: select_call(); break;
    case 4: if (chance(2)) masked_call(); else select_call(); break;
    case 5: make_poller_call(); break;
    case 6: case 7: case 8: case 9: if (live_of(OF(POLLER))) control_call(); else make_poller_call(); break;
    case 10: case 11: case 12: if (live_of(OF(POLLER))) wait_call(); else make_poller_call(); break;
    default: channels_call();
    }
}
