/* What is carried from one descriptor to another inside the kernel (splice, tee, vmsplice), and descriptors that stand
   for memory and for timers. */
#include <sys/timerfd.h>

static unsigned *pages_of(struct live *one) { return &channels[one->channel % CHANNELS_MAX].pages; }

/* Between a pipe and a file, or two pipes. No more than fits goes in, whatever it is cut into. */
static void splice_call(void) {
    struct live *pipe = live_of(OF(PIPE_END)), *other = live_of(chance(3) ? OF(PIPE_END) : OF(FILE_KIND) | OF(MEMORY_FILE));
    if (pipe == NULL || other == NULL) { pipe_call(); return; }
    int from_pipe = chance(2), tees = other->kind == PIPE_END && chance(2);
    struct live *in = from_pipe ? pipe : other, *out = from_pipe ? other : pipe;
    size_t length = CHOOSE(0u, 1u, 100u, 4095u, 4096u, 4097u, 10000u, 20000u);
    unsigned flags = SPLICE_F_NONBLOCK | CHOOSE(0u, 0u, SPLICE_F_MOVE, SPLICE_F_MORE, SPLICE_F_GIFT, 16u, 32u);
    long offset = CHOOSE(0L, 1L, 100L, 4096L, 8192L, -1L, 100000L);
    unsigned most = in->kind == PIPE_END ? *pages_of(in) : (unsigned)(length + 4095) / 4096 + 1;
    if (out->kind == PIPE_END && *pages_of(out) + most > 12) length = 0;
    if (out->kind == PIPE_END && length > 0) *pages_of(out) += most;
    if (tees) {
        say("tee(%d, %d, %zu, %#x)", in->number, out->number, length, flags);
        gave(syscall(SYS_tee, in->number, out->number, length, flags));
        return;
    }
    long *in_offset = in->kind != PIPE_END ? chance(2) ? &offset : NULL : chance(20) ? &offset : NULL;
    long *out_offset = out->kind != PIPE_END ? chance(2) ? &offset : NULL : chance(20) ? &offset : NULL;
    say("splice(%d%s, %d%s, %ld, %zu, %#x)", in->number, in_offset ? " at" : "", out->number, out_offset ? " at" : "", offset, length, flags);
    long moved = gave(syscall(SYS_splice, in->number, in_offset, out->number, out_offset, length, flags));
    if (in_offset || out_offset) say(" %ld", offset);
    (void)moved;
}

static void vmsplice_call(void) {
    struct live *pipe = live_of(OF(PIPE_END));
    if (pipe == NULL) { pipe_call(); return; }
    size_t length = CHOOSE(0u, 1u, 100u, 4096u, 5000u);
    struct iovec part = {chance(20) ? bad_pointer() : buffer, length};
    if (*pages_of(pipe) + 3 > 12) part.iov_len = length = 0;
    *pages_of(pipe) += 3;
    unsigned flags = SPLICE_F_NONBLOCK | CHOOSE(0u, 0u, SPLICE_F_MORE, 64u);
    /* Not what is changed before it is read. */
    static unsigned char steady[8192];
    if (part.iov_base == buffer) part.iov_base = steady;
    say("vmsplice(%d, %s, %zu, %#x)", pipe->number, part.iov_base == steady ? "steady" : "bad", length, flags);
    gave(syscall(SYS_vmsplice, pipe->number, &part, 1UL, flags));
}

/* ---- Memory with a descriptor. ---- */

static void memory_file_call(void) {
    unsigned flags = CHOOSE(0u, MFD_CLOEXEC, MFD_ALLOW_SEALING, MFD_ALLOW_SEALING, 0x80u);
    if (count_live() > 14) { close_one(live_of(ANY_KIND)); return; }
    int is_bad = chance(20);
    void *name = is_bad ? bad_pointer() : "name";
    say("memfd_create(%s, %#x)", is_bad ? "bad" : "name", flags);
    add_live(gave(syscall(SYS_memfd_create, name, flags)), MEMORY_FILE);
}

static void seal_call(void) {
    int adds = chance(2), seals = CHOOSE(F_SEAL_GROW, F_SEAL_SHRINK, F_SEAL_WRITE, F_SEAL_GROW | F_SEAL_SHRINK, F_SEAL_SEAL, 0, 0x10000);
    say("fcntl(");
    int number = some_descriptor(OF(MEMORY_FILE));
    say(", %s, %#x)", adds ? "F_ADD_SEALS" : "F_GET_SEALS", seals);
    gave(syscall(SYS_fcntl, number, adds ? F_ADD_SEALS : F_GET_SEALS, seals));
}

/* ---- Timers with a descriptor: far from running out, or long since. ---- */

static void timer_file_call(void) {
    int clock = CHOOSE(CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_PROCESS_CPUTIME_ID, 77, -1);
    int flags = CHOOSE(0, TFD_CLOEXEC, 1);
    if (count_live() > 14) { close_one(live_of(ANY_KIND)); return; }
    say("timerfd_create(%d, %#x)", clock, flags);
    add_live(gave(syscall(SYS_timerfd_create, clock, flags | TFD_NONBLOCK)), TIMER_FILE);
}

static void say_rest(const struct itimerspec *left) {
    say(" {%ld every %ld.%09ld}", left->it_value.tv_sec == 0 && left->it_value.tv_nsec == 0 ? 0 : (left->it_value.tv_sec + 9) / 10 * 10,
        left->it_interval.tv_sec, left->it_interval.tv_nsec);
}

static void timer_file_set_call(void) {
    struct itimerspec new = {.it_value = CHOOSE_AS(struct timespec, (struct timespec){0, 0}, (struct timespec){10000, 0}, (struct timespec){5000, 999999999},
                                                   (struct timespec){5000, 1000000000}, (struct timespec){-1, 0}, (struct timespec){0, 1}),
                             .it_interval = CHOOSE_AS(struct timespec, (struct timespec){0, 0}, (struct timespec){0, 0}, (struct timespec){100000, 5}, (struct timespec){0, -1})};
    struct itimerspec old;
    memset(&old, 0, sizeof old);
    int flags = CHOOSE(0, 0, TFD_TIMER_ABSTIME, TFD_TIMER_ABSTIME, 4);
    void *where = chance(24) ? bad_pointer() : &new;
    /* Up since long ago, if it is a time; one that is up after a moment would have to be waited for. */
    if (new.it_value.tv_sec == 0 && new.it_value.tv_nsec == 1) flags = TFD_TIMER_ABSTIME, new.it_interval = (struct timespec){0, 0};
    else if (flags == TFD_TIMER_ABSTIME && new.it_value.tv_sec >= 0) new.it_value.tv_sec += new.it_value.tv_sec > 0 ? 1L << 33 : 0;
    say("timerfd_settime(");
    int number = some_descriptor(OF(TIMER_FILE));
    say(", %#x, %s{%ld.%ld every %ld.%ld})", flags, where == &new ? "" : "bad ", new.it_value.tv_sec, new.it_value.tv_nsec, new.it_interval.tv_sec, new.it_interval.tv_nsec);
    if (gave(syscall(SYS_timerfd_settime, number, flags, where, &old)) == 0 && old.it_value.tv_sec < 1L << 32) say_rest(&old);
    struct pollfd entry = {number, POLLIN, 0};
    if (new.it_value.tv_sec == 0 && new.it_value.tv_nsec == 1) syscall(SYS_poll, &entry, 1, 100);
}

static void timer_file_look_call(void) {
    struct itimerspec left;
    memset(&left, 0, sizeof left);
    say("timerfd_gettime(");
    int number = some_descriptor(OF(TIMER_FILE));
    say(")");
    if (gave(syscall(SYS_timerfd_gettime, number, chance(24) ? bad_pointer() : &left)) == 0 && left.it_value.tv_sec < 1L << 32) say_rest(&left);
}

static void timer_file_read_call(void) {
    size_t length = CHOOSE(8u, 8u, 8u, 100u, 4u, 0u);
    uint64_t count[16] = {0};
    void *where = chance(24) && may(LOST_COUNTS) ? bad_pointer() : count;
    say("read(");
    int number = some_descriptor(OF(TIMER_FILE));
    say(", %s, %zu)", where == count ? "count" : "bad", length);
    if (gave(syscall(SYS_read, number, where, length)) == 8) say(" %lu", count[0]);
}

static void carried_call(void) {
    switch (pick(20)) {
    case 0: pipe_call(); break;
    case 1: case 2: put_call(); break;
    case 3: take_call(); break;
    case 4: case 5: case 6: case 7: splice_call(); break;
    case 8: vmsplice_call(); break;
    case 9: memory_file_call(); break;
    case 10: if (live_of(OF(MEMORY_FILE))) seal_call(); else memory_file_call(); break;
    case 11: timer_file_call(); break;
    case 12: case 13: if (live_of(OF(TIMER_FILE))) timer_file_set_call(); else timer_file_call(); break;
    case 14: if (live_of(OF(TIMER_FILE))) timer_file_look_call(); else timer_file_call(); break;
    case 15: if (live_of(OF(TIMER_FILE))) timer_file_read_call(); else timer_file_call(); break;
    case 16: read_call(); break;
    case 17: write_call(); break;
    case 18: poll_call(); break;
    default: stat_call();
    }
}
