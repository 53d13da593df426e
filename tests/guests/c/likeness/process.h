/* What a process says of itself and asks of the kernel for itself: names, ids, scheduling, clocks, futexes, chance. */
#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <sys/utsname.h>

static void futex_call(void) {
    static unsigned words[4];
    static const int operations[] = {FUTEX_WAKE, FUTEX_WAIT, FUTEX_REQUEUE, FUTEX_CMP_REQUEUE, FUTEX_WAIT_BITSET, FUTEX_WAKE_BITSET,
                                     FUTEX_LOCK_PI, FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI, FUTEX_WAKE_OP, 77};
    int operation = ONE_OF(operations), flags = CHOOSE(0, FUTEX_PRIVATE_FLAG);
    unsigned value = CHOOSE(0u, 1u, 5u, 0x7fffffffu, ~0u), bits = CHOOSE(~0u, 1u, 0u), at = pick(4);
    void *where = chance(16) ? bad_pointer() : chance(16) ? (char *)words + 2 : (char *)&words[at];
    struct timespec limit = CHOOSE_AS(struct timespec, (struct timespec){0, 0}, (struct timespec){0, 1}, (struct timespec){0, 1000000000}, (struct timespec){-1, 0});
    int is_lock = operation == FUTEX_LOCK_PI || operation == FUTEX_UNLOCK_PI || operation == FUTEX_TRYLOCK_PI;
    /* A lock nobody has, or one's own. */
    words[at] = is_lock ? CHOOSE(0u, 0u, (unsigned)getpid()) : CHOOSE(0u, 1u, 5u);
    int takes_limit = operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
    say("futex(%s%ld, %d, %s, %u, %#x)", where >= (void *)words && where < (void *)(words + 4) ? "word+" : "bad ",
        where >= (void *)words && where < (void *)(words + 4) ? (long)((char *)where - (char *)&words[at]) : 0L, operation | flags,
        is_lock ? words[at] ? "own" : "free" : words[at] == 0 ? "0" : words[at] == 1 ? "1" : "5", value, bits);
    if (takes_limit) say(" within %ld.%ld", limit.tv_sec, limit.tv_nsec);
    unsigned second = operation == FUTEX_WAKE_OP ? CHOOSE(0x00000000u, 0x01001001u, 0x20001000u, 0x03fff000u) : value;
    gave(syscall(SYS_futex, where, operation | flags, operation == FUTEX_REQUEUE || operation == FUTEX_CMP_REQUEUE ? 1 : value,
                 takes_limit ? (long)&limit : is_lock ? 0L : 1L, &words[(at + 1) % 4], takes_limit || operation == FUTEX_WAKE_BITSET ? bits : second));
    say(is_lock ? words[at] == 0 ? " free" : (words[at] & FUTEX_TID_MASK) == (unsigned)getpid() ? " own" : " other" : "");
}

static void prctl_call(void) {
    static const struct { int option; const char *text; } options[] = {
        {PR_SET_NAME, "SET_NAME"}, {PR_GET_NAME, "GET_NAME"}, {PR_GET_DUMPABLE, "GET_DUMPABLE"}, {PR_SET_DUMPABLE, "SET_DUMPABLE"},
        {PR_SET_PDEATHSIG, "SET_PDEATHSIG"}, {PR_GET_PDEATHSIG, "GET_PDEATHSIG"}, {PR_GET_KEEPCAPS, "GET_KEEPCAPS"},
        {PR_SET_TIMERSLACK, "SET_TIMERSLACK"}, {PR_GET_TIMERSLACK, "GET_TIMERSLACK"}, {PR_GET_NO_NEW_PRIVS, "GET_NO_NEW_PRIVS"}, {9999, "9999"},
    };
    unsigned which = pick(sizeof options / sizeof *options);
    long argument = CHOOSE(0L, 1L, 2L, 40L, 65L, 100000L);
    char name[17] = {0};
    int number = -7;
    say("prctl(%s, ", options[which].text);
    switch (options[which].option) {
    case PR_SET_NAME: {
        const char *new = CHOOSE_TEXT("short", "", "exactly-fifteen", "much longer than a name may be");
        say("\"%s\")", new);
        gave(syscall(SYS_prctl, PR_SET_NAME, chance(16) ? (char *)bad_pointer() : new, 0L, 0L, 0L));
        break;
    }
    case PR_GET_NAME:
        say(")");
        if (gave(syscall(SYS_prctl, PR_GET_NAME, chance(16) ? bad_pointer() : name, 0L, 0L, 0L)) == 0) say(" \"%s\"", name);
        break;
    case PR_GET_PDEATHSIG:
        say(")");
        if (gave(syscall(SYS_prctl, PR_GET_PDEATHSIG, chance(16) ? bad_pointer() : &number, 0L, 0L, 0L)) == 0) say(" %d", number);
        break;
    default:
        say("%ld)", argument);
        gave(syscall(SYS_prctl, options[which].option, argument, 0L, 0L, 0L));
    }
}

static void schedule_call(void) {
    int process = CHOOSE(0, 0, 0, -1, 99999999), policy = CHOOSE(SCHED_OTHER, SCHED_BATCH, SCHED_FIFO, SCHED_RR, 77, -1);
    struct sched_param parameter = {CHOOSE(0, 0, 0, 1, 99, -1)};
    void *where = chance(16) ? bad_pointer() : &parameter;
    const char *how = where == &parameter ? "" : "bad ";
    static unsigned char cores[1024];
    switch (pick(7)) {
    case 0:
        say("sched_getscheduler(%d)", process);
        gave(syscall(SYS_sched_getscheduler, process));
        break;
    case 1:
        say("sched_setscheduler(%d, %d, %s%d)", process, policy, how, parameter.sched_priority);
        if (policy == SCHED_FIFO || policy == SCHED_RR) parameter.sched_priority = 1;
        gave(syscall(SYS_sched_setscheduler, process, policy, where));
        break;
    case 2:
        say("sched_getparam(%d, %s)", process, how);
        if (gave(syscall(SYS_sched_getparam, process, where)) == 0) say(" %d", parameter.sched_priority);
        break;
    case 3:
        say("sched_get_priority_max/min(%d)", policy);
        gave(syscall(SYS_sched_get_priority_max, policy));
        gave(syscall(SYS_sched_get_priority_min, policy));
        break;
    case 4: {
        int which = CHOOSE(PRIO_PROCESS, PRIO_PROCESS, 3, -1);
        say("getpriority(%d, %d)", which, process);
        /* As nice as whoever started this. */
        gave_some(syscall(SYS_getpriority, which, process), "some");
        break;
    }
    case 5: {
        size_t length = CHOOSE(1024u, 1024u, 0u, 1u, 7u);
        say("sched_getaffinity(%d, %zu)", process, length);
        gave_some(syscall(SYS_sched_getaffinity, process, length, where == &parameter ? cores : where), "some");
        break;
    }
    default:
        say("sched_yield()");
        gave(syscall(SYS_sched_yield));
    }
}

static void sleep_call(void) {
    struct timespec time = CHOOSE_AS(struct timespec, (struct timespec){0, 0}, (struct timespec){0, 1}, (struct timespec){0, -1}, (struct timespec){0, 1000000000}, (struct timespec){-1, 0});
    void *where = chance(12) ? bad_pointer() : &time;
    const char *how = where == &time ? "" : "bad ";
    int clock = CHOOSE(CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, 77, -1);
    switch (pick(5)) {
    case 0:
        say("nanosleep(%s%ld.%ld)", how, time.tv_sec, time.tv_nsec);
        gave(syscall(SYS_nanosleep, where, NULL));
        break;
    case 1: {
        int flags = CHOOSE(0, TIMER_ABSTIME, TIMER_ABSTIME, 2);
        if (clock == CLOCK_PROCESS_CPUTIME_ID) flags = TIMER_ABSTIME;
        say("clock_nanosleep(%d, %d, %s%ld.%ld)", clock, flags, how, time.tv_sec, time.tv_nsec);
        gave(syscall(SYS_clock_nanosleep, clock, flags, where, NULL));
        break;
    }
    case 2:
        say("clock_gettime(%d, %s)", clock, how);
        gave(syscall(SYS_clock_gettime, clock, where));
        break;
    case 3:
        say("gettimeofday(%s)", how);
        gave(syscall(SYS_gettimeofday, where, chance(8) ? bad_pointer() : NULL));
        break;
    default: {
        static struct rusage usage;
        int who = CHOOSE(RUSAGE_SELF, RUSAGE_THREAD, RUSAGE_CHILDREN, 7, -2);
        say("getrusage(%d, %s)", who, how);
        gave(syscall(SYS_getrusage, who, where == &time ? (void *)&usage : where));
    }
    }
}

static void identity_call(void) {
    static gid_t groups[65536];
    unsigned own = geteuid(), group = getegid(), other = 54321;
    switch (pick(8)) {
    case 0: { unsigned id = CHOOSE(own, own, other, ~0u); say("setuid(%s)", id == own ? "own" : id == other ? "other" : "none"); gave(syscall(SYS_setuid, id)); break; }
    case 1: { unsigned id = CHOOSE(group, group, other, ~0u); say("setgid(%s)", id == group ? "own" : id == other ? "other" : "none"); gave(syscall(SYS_setgid, id)); break; }
    case 2: { unsigned id = CHOOSE(own, other, ~0u); say("setreuid(-1, %s)", id == own ? "own" : id == other ? "other" : "-1"); gave(syscall(SYS_setreuid, -1, id)); break; }
    case 3: { unsigned id = CHOOSE(group, other, ~0u); say("setresgid(-1, %s, -1)", id == group ? "own" : id == other ? "other" : "-1"); gave(syscall(SYS_setresgid, -1, id, -1)); break; }
    case 4: { int room = CHOOSE(-1, 65536, 65536); say("getgroups(%d)", room); gave_some(syscall(SYS_getgroups, room, groups), "some"); break; }
    case 5: { say("uname(bad)"); gave(syscall(SYS_uname, bad_pointer())); break; }
    case 6: { say("gettid - getpid"); gave(syscall(SYS_gettid) - syscall(SYS_getpid)); break; }
    default: {
        static char name[8192];
        size_t room = CHOOSE(8192u, 3u, 2u, 1u, 0u);
        void *where = chance(12) ? bad_pointer() : name;
        say("getcwd(%s%zu)", where == name ? "" : "bad ", room);
        if (gave(syscall(SYS_getcwd, where, room)) > 0) say(" \"%s\"", name);
    }
    }
}

static void random_call(void) {
    size_t length = CHOOSE(0u, 1u, 100u, 1000u);
    unsigned flags = CHOOSE(0u, GRND_NONBLOCK, GRND_RANDOM | GRND_NONBLOCK, 8u, 6u);
    void *where = chance(8) ? bad_pointer() : buffer;
    say("getrandom(%s%zu, %#x)", where == buffer ? "" : "bad ", length, flags);
    gave(syscall(SYS_getrandom, where, length, flags));
}

static void process_call(void) {
    switch (pick(12)) {
    case 0: case 1: case 2: futex_call(); break;
    case 3: case 4: prctl_call(); break;
    case 5: case 6: schedule_call(); break;
    case 7: case 8: sleep_call(); break;
    case 9: case 10: identity_call(); break;
    default: random_call();
    }
}

static void process_end(void) {
    struct sched_param none = {0};
    syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &none);
    prctl(PR_SET_NAME, "likeness");
    prctl(PR_SET_DUMPABLE, 1L, 0L, 0L, 0L);
    prctl(PR_SET_PDEATHSIG, 0L, 0L, 0L, 0L);
    prctl(PR_SET_TIMERSLACK, 0L, 0L, 0L, 0L);
}
