/* Resource limits: all start from the same values on every machine, are lowered, and are run into. */
#include <sys/resource.h>

static const struct { int which; const char *name; unsigned long value; } baseline[] = {
    {RLIMIT_NOFILE, "NOFILE", 256},        {RLIMIT_FSIZE, "FSIZE", ~0UL}, {RLIMIT_AS, "AS", 1UL << 44},
    {RLIMIT_DATA, "DATA", 1UL << 44},      {RLIMIT_CORE, "CORE", 0},           {RLIMIT_STACK, "STACK", 8UL << 20},
    {RLIMIT_RTPRIO, "RTPRIO", 0},      {RLIMIT_CPU, "CPU", 100000},
};
#define BASELINES (sizeof baseline / sizeof *baseline)

static void limits_reset(void) {
    for (unsigned i = 0; i < BASELINES; i++) {
        struct rlimit limit = {baseline[i].value, baseline[i].value};
        if (setrlimit(baseline[i].which, &limit) != 0) {
            say("cannot set RLIMIT_%s", baseline[i].name);
            end_line();
        }
    }
}

static void set_limit_call(void) {
    unsigned at = pick(BASELINES);
    unsigned long most = baseline[at].value, more = most + 1 ? most + 1 : most;
    struct rlimit new = {CHOOSE(most, most, more, ~0UL, most / 2 + 1), CHOOSE(most, most, most, more, ~0UL)};
    struct rlimit old = {0, 0};
    int which = chance(12) ? CHOOSE(16, -1, 99) : baseline[at].which;
    void *where = chance(3) ? NULL : chance(24) ? bad_pointer() : &new;
    say("prlimit64(%s %d, %s{%#lx %#lx})", baseline[at].name, which, where == &new ? "" : where ? "bad " : "none ", new.rlim_cur, new.rlim_max);
    if (gave(syscall(SYS_prlimit64, chance(3) ? getpid() : 0, which, where, &old)) == 0) say(" {%#lx %#lx}", old.rlim_cur, old.rlim_max);
    limits_reset();
}

static void lower(int which, unsigned long soft, unsigned long hard) {
    struct rlimit limit = {soft, hard};
    gave(setrlimit(which, &limit));
}

/* Runs into the longest file that may be. */
static void file_size_call(void) {
    long most = CHOOSE(0L, 100L, 4096L, 10000L), at = CHOOSE(0L, 50L, 99L, 100L, 4000L, 4096L, 9999L, 20000L), length = CHOOSE(0L, 1L, 100L, 5000L);
    unsigned how = pick(5);
    fill(5000);
    say("%s(", how == 0 ? "pwrite64" : how == 1 ? "ftruncate" : how == 2 ? "fallocate" : how == 3 ? "write" : "pwritev");
    int number = some_descriptor(OF(FILE_KIND));
    say(", %ld at %ld) within %ld", length, at, most);
    signal(SIGXFSZ, SIG_DFL);
    uint64_t set = 1UL << (SIGXFSZ - 1), pending = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, 8);
    lower(RLIMIT_FSIZE, (unsigned long)most, ~0UL);
    struct iovec part = {buffer, (size_t)length};
    if (how == 3) lseek(number, at, SEEK_SET);
    long given = gave(how == 0   ? syscall(SYS_pwrite64, number, buffer, length, at)
                      : how == 1 ? syscall(SYS_ftruncate, number, at + length)
                      : how == 2 ? syscall(SYS_fallocate, number, 0, at, length)
                      : how == 3 ? syscall(SYS_write, number, buffer, length)
                                 : syscall(SYS_pwritev, number, &part, 1, at, 0));
    has_unwritten |= how == 2 && given == 0;
    lower(RLIMIT_FSIZE, ~0UL, ~0UL);
    syscall(SYS_rt_sigpending, &pending, 8);
    say(" pending %#lx", pending & set);
    while (syscall(SYS_rt_sigtimedwait, &set, NULL, &(struct timespec){0, 0}, 8) > 0) {}
    signal(SIGXFSZ, SIG_IGN);
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, NULL, 8);
}

/* Runs into the highest descriptor that may be. */
static void descriptors_limit_call(void) {
    unsigned most = CHOOSE(0u, 3u, 6u, 10u, 20u);
    unsigned how = pick(6);
    struct pollfd entries[16];
    for (unsigned i = 0; i < 16; i++) entries[i] = (struct pollfd){-1, 0, 0};
    say("%s(", how == 0 ? "dup" : how == 1 ? "dup2" : how == 2 ? "fcntl(F_DUPFD" : how == 3 ? "poll" : how == 4 ? "pipe2" : "openat");
    int number = how >= 3 ? -1 : some_descriptor(ANY_KIND), argument = CHOOSE(3, 6, 9, 10, 15);
    say(", %d) within %u", argument, most);
    lower(RLIMIT_NOFILE, most, 256);
    int ends[2] = {-1, -1};
    long result = how == 0   ? syscall(SYS_dup, number)
                  : how == 1 ? syscall(SYS_dup2, number, argument)
                  : how == 2 ? syscall(SYS_fcntl, number, F_DUPFD, argument)
                  : how == 3 ? syscall(SYS_poll, entries, argument, 0)
                  : how == 4 ? syscall(SYS_pipe2, ends, O_NONBLOCK)
                             : syscall(SYS_openat, AT_FDCWD, ".", O_RDONLY);
    gave(result);
    lower(RLIMIT_NOFILE, 256, 256);
    if (how <= 2) copy_number(result, number);
    if (how == 4 && result == 0) say(" %d %d", ends[0], ends[1]), close(ends[0]), close(ends[1]);
    if (how == 5 && result >= 0) close((int)result);
}

/* Runs into the most memory that may be mapped. */
static void memory_limit_call(void) {
    unsigned long length = CHOOSE(4096UL, 1UL << 20, 1UL << 30, 1UL << 40);
    int which = CHOOSE(RLIMIT_AS, RLIMIT_AS, RLIMIT_DATA), how = (int)pick(3);
    int writable = chance(2) ? PROT_READ | PROT_WRITE : PROT_READ;
    say("%s(%#lx, %d) within 256 MiB of %s", how == 0 ? "mmap" : how == 1 ? "mremap" : "brk", length, writable, which == RLIMIT_AS ? "AS" : "DATA");
    void *small = mmap(NULL, 4096, writable, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    lower(which, 256UL << 20, 1UL << 44);
    long got = how == 0   ? syscall(SYS_mmap, NULL, length, writable, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
               : how == 1 ? syscall(SYS_mremap, small, 4096UL, length, MREMAP_MAYMOVE)
                          : syscall(SYS_brk, break_start + length) == (long)(break_start + length) ? 1L : 0L;
    if (how == 2) say(" = %ld", got); else gave_some(got, "there");
    lower(which, 1UL << 44, 1UL << 44);
    if (how == 0 && got > 0) munmap((void *)got, length);
    if (how == 1 && got > 0) munmap((void *)got, length); else munmap(small, 4096);
    syscall(SYS_brk, break_start);
}

/* Runs into the most signals that may be queued. */
static void queue_limit_call(void) {
    unsigned most = CHOOSE(0u, 1u, 5u), sent = 0;
    uint64_t set = 1UL << 39 | 1UL << (SIGUSR1 - 1), old;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &old, 8);
    while (syscall(SYS_rt_sigtimedwait, &set, NULL, &(struct timespec){0, 0}, 8) > 0) {}
    say("queue within %u", most);
    struct rlimit before = {512, 512};
    getrlimit(RLIMIT_SIGPENDING, &before);
    lower(RLIMIT_SIGPENDING, most, before.rlim_max);
    union sigval value = {.sival_int = 3};
    int result = 0;
    while (sent < 9 && (result = sigqueue(getpid(), 40, value)) == 0) sent++;
    gave(result);
    say(" after %s", sent == 9 ? "many" : "some");
    gave(syscall(SYS_kill, getpid(), 40));
    gave(syscall(SYS_kill, getpid(), SIGUSR1));
    lower(RLIMIT_SIGPENDING, before.rlim_cur, before.rlim_max);
    while (syscall(SYS_rt_sigtimedwait, &set, NULL, &(struct timespec){0, 0}, 8) > 0) {}
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8);
}

static void limits_call(void) {
    switch (pick(9)) {
    case 0: case 1: case 2: file_size_call(); break;
    case 3: case 4: descriptors_limit_call(); break;
    case 5: memory_limit_call(); break;
    case 6: queue_limit_call(); break;
    default: set_limit_call();
    }
}

static void limits_start(void) {
    signal(SIGXFSZ, SIG_IGN);
    limits_reset();
    flush();
}

static void limits_end(void) { limits_reset(); }
