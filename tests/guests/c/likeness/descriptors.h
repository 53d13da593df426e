/* The live set of descriptors, and the calls about them: close, dup, fcntl. */
enum kind { NOTHING, FILE_KIND, DIRECTORY, PLACE, PIPE_END, PAIR, EVENT, POLLER, LISTENER, FRESH, TCP, UDP, MEMORY_FILE, TIMER_FILE, SIGNAL_FILE };

#define LIVE_MAX 20
static struct live {
    int number;
    enum kind kind;
    int in_use;
    unsigned channel;
} live[LIVE_MAX];

static struct live *add_live(long number, enum kind kind) {
    if (number < 0) return NULL;
    for (unsigned i = 0; i < LIVE_MAX; i++)
        if (!live[i].in_use) {
            live[i] = (struct live){(int)number, kind, 1, 0};
            return &live[i];
        }
    close((int)number);
    return NULL;
}

static struct live *find_live(int number) {
    for (unsigned i = 0; i < LIVE_MAX; i++)
        if (live[i].in_use && live[i].number == number) return &live[i];
    return NULL;
}

static unsigned count_live(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < LIVE_MAX; i++) count += (unsigned)live[i].in_use;
    return count;
}

/* One of these kinds (a bit each), if there is one. */
static struct live *live_of(unsigned kinds) {
    unsigned start = pick(LIVE_MAX);
    for (unsigned i = 0; i < LIVE_MAX; i++) {
        struct live *one = &live[(start + i) % LIVE_MAX];
        if (one->in_use && (kinds >> one->kind & 1)) return one;
    }
    return NULL;
}

#define OF(kind) (1u << (kind))
#define ANY_KIND (~0u)
#define HAS_BYTES (OF(FILE_KIND) | OF(MEMORY_FILE))
#define HAS_OFFSETS (HAS_BYTES | OF(DIRECTORY) | OF(PLACE))

static int bad_descriptor(void) { return CHOOSE(-1, -100, 199, 99999, 2147483647, 100); }

/* Most of the time one of these kinds, now and then another or none at all. */
static int some_descriptor(unsigned kinds) {
    struct live *one = chance(12) ? live_of(ANY_KIND) : live_of(kinds);
    int number = one && !chance(25) ? one->number : bad_descriptor();
    say("%d", number);
    return number;
}

static void close_one(struct live *one) {
    say("close(%d)", one->number);
    one->in_use = 0;
    gave(close(one->number));
}

static void copy_number(long result, int old) {
    struct live *from = find_live(old);
    if (result < 0 || result == old) return;
    struct live *over = find_live((int)result);
    if (over) over->in_use = 0;
    struct live *copy = add_live(result, from ? from->kind : FILE_KIND);
    if (copy && from) copy->channel = from->channel;
}

static void fcntl_call(void) {
    static const int commands[] = {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD, F_DUPFD_CLOEXEC, F_GETPIPE_SZ, 77,
                                   F_GETLK, F_SETLK, F_OFD_SETLK, F_OFD_GETLK, F_GETFL, F_SETFL, F_GETOWN, F_GET_SEALS};
    int command = ONE_OF(commands);
    say("fcntl(");
    int number = some_descriptor(ANY_KIND);
    say(", %d", command);
    if (command == F_GETLK || command == F_SETLK || command == F_OFD_SETLK || command == F_OFD_GETLK) {
        struct flock lock = {.l_type = CHOOSE((short)F_RDLCK, F_WRLCK, F_UNLCK, 7), .l_whence = CHOOSE((short)0, 0, 2, 9),
                             .l_start = CHOOSE(0L, 10L, -1L, 4096L), .l_len = CHOOSE(0L, 1L, -5L, 4096L)};
        void *where = chance(12) ? bad_pointer() : &lock;
        if ((command == F_OFD_SETLK || command == F_OFD_GETLK) && chance(6)) lock.l_pid = 1;
        say(", {%d %d %ld %ld %d}%s)", lock.l_type, lock.l_whence, lock.l_start, lock.l_len, lock.l_pid, where == &lock ? "" : "!");
        if (gave(fcntl(number, command, where)) == 0) say(" {%d %d %ld %ld}", lock.l_type, lock.l_whence, lock.l_start, lock.l_len), say(lock.l_pid == getpid() ? " own" : lock.l_pid == -1 ? " another" : "");
        return;
    }
    long argument = 0;
    if (command == F_SETFD) argument = CHOOSE(0L, 1L, 2L, 3L);
    if (command == F_SETFL) argument = CHOOSE(0L, O_NONBLOCK, O_APPEND, O_APPEND | O_NONBLOCK, O_NOATIME, O_RDWR | O_CREAT);
    struct live *one = find_live(number);
    /* Nothing may wait. */
    if (command == F_SETFL && !(one && (HAS_OFFSETS >> one->kind & 1))) argument |= O_NONBLOCK;
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) argument = CHOOSE(0L, 3L, 10L, 30L, -1L, 1L << 20);
    say(", %#lx)", argument);
    long result = gave(fcntl(number, command, argument));
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) copy_number(result, number);
}

static void dup_call(void) {
    unsigned which = pick(3);
    say("dup%s(", which == 0 ? "" : which == 1 ? "2" : "3");
    int old = some_descriptor(ANY_KIND);
    if (which == 0) {
        say(")");
        copy_number(gave(syscall(SYS_dup, old)), old);
        return;
    }
    int new = chance(2) && live_of(ANY_KIND) ? live_of(ANY_KIND)->number : CHOOSE(5, 9, 17, 40, -1, 1 << 21);
    int flags = which == 2 ? CHOOSE(0, O_CLOEXEC, 1, O_CLOEXEC | O_NONBLOCK) : 0;
    say(", %d, %#x)", new, flags);
    copy_number(gave(which == 1 ? syscall(SYS_dup2, old, new) : syscall(SYS_dup3, old, new, flags)), old);
}

static void close_range_call(void) {
    unsigned first = CHOOSE(3u, 5u, 8u, 20u), last = CHOOSE(4u, 6u, 9u, 30u, 150u), flags = CHOOSE(0u, 0u, 4u, 1u, 2u);
    say("close_range(%u, %u, %u)", first, last, flags);
    if (gave(syscall(SYS_close_range, first, last, flags)) != 0 || flags == 4) return;
    for (unsigned i = 0; i < LIVE_MAX; i++)
        if (live[i].number >= (int)first && live[i].number <= (int)last) live[i].in_use = 0;
}

static void descriptors_call(void) {
    struct live *one = live_of(ANY_KIND);
    switch (pick(10)) {
    case 0: case 1: case 2: dup_call(); break;
    case 3: case 4: case 5: case 6: fcntl_call(); break;
    case 7:
        if (chance(5)) { close_range_call(); break; }
        /* fall through */
    default:
        if (one && (count_live() > 8 || chance(2))) { close_one(one); break; }
        int number = bad_descriptor();
        say("close(%d)", number);
        gave(close(number));
    }
}

static void descriptors_end(void) {
    for (unsigned i = 0; i < LIVE_MAX; i++)
        if (live[i].in_use) close(live[i].number), live[i].in_use = 0;
    for (int number = 3; number < 60; number++) close(number);
}
