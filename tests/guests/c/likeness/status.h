/* What files are said to be, and changing that: the stat family, access, modes, owners, times. */

/* A time of a file: those that the generator sets are in the past, all others are "now". */
static void say_time(const char *what, long seconds, long nanoseconds) {
    if (seconds < 1600000000) say(" %s %ld.%09ld", what, seconds, nanoseconds); else say(" %s now", what);
}

static void say_status(const struct stat *status) {
    say(" {%o %lu %u:%u", status->st_mode, (unsigned long)status->st_nlink, status->st_uid, status->st_gid);
    if (!S_ISDIR(status->st_mode)) say(" %ld", (long)status->st_size);
    if (S_ISREG(status->st_mode) && !failed_writes) say_time("mtime", status->st_mtim.tv_sec, status->st_mtim.tv_nsec);
    say("}");
}

static void stat_call(void) {
    struct stat status;
    memset(&status, 0, sizeof status);
    void *where = chance(20) ? bad_pointer() : &status;
    long result;
    if (chance(3)) {
        say("fstat(");
        int number = some_descriptor(HAS_OFFSETS);
        say(")");
        result = syscall(SYS_fstat, number, where);
    } else {
        int flags = CHOOSE(0, 0, AT_SYMLINK_NOFOLLOW, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, AT_NO_AUTOMOUNT, 1, 0x80);
        say("newfstatat(");
        int place = some_place();
        const char *path = some_path(0);
        say(", %#x)", flags);
        result = syscall(SYS_newfstatat, place, path, where, flags);
    }
    if (gave(result) == 0) say_status(&status);
}

static void statx_call(void) {
    static struct statx status;
    memset(&status, 0, sizeof status);
    unsigned mask = CHOOSE(STATX_BASIC_STATS, STATX_BASIC_STATS, STATX_TYPE, STATX_MODE, 0u, STATX__RESERVED);
    int flags = CHOOSE(0, 0, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, AT_STATX_FORCE_SYNC, AT_STATX_SYNC_TYPE, 1);
    say("statx(");
    int place = some_place();
    const char *path = some_path(0);
    say(", %#x, %#x)", flags, mask);
    if (gave(syscall(SYS_statx, place, path, flags, mask, &status)) == 0)
        say(" {%o %u %u:%u%s}", status.stx_mode, status.stx_nlink, status.stx_uid, status.stx_gid,
            (~status.stx_mask & mask & STATX_BASIC_STATS) == 0 ? "" : " part");
}

static void access_call(void) {
    int mode = CHOOSE(0, 4, 2, 1, 7, 6, 8, -1), flags = CHOOSE(0, 0, 0, AT_EACCESS, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, 1);
    say("faccessat2(");
    int place = some_place();
    const char *path = some_path(0);
    say(", %d, %#x)", mode, flags);
    gave(syscall(SYS_faccessat2, place, path, mode, flags));
}

static void chmod_call(void) {
    unsigned mode = some_mode();
    if (chance(2)) {
        say("fchmod(");
        int number = some_descriptor(HAS_OFFSETS);
        struct live *one = find_live(number);
        if (one && !(HAS_OFFSETS >> one->kind & 1) && !may(MODES_OF_CHANNELS)) number = -1, say("!");
        say(", %o)", mode);
        gave(syscall(SYS_fchmod, number, mode));
    } else {
        say("fchmodat(");
        int place = some_place();
        const char *path = some_path(0);
        say(", %o)", mode);
        gave(syscall(SYS_fchmodat, place, path, mode));
    }
}

static void chown_call(void) {
    unsigned user = CHOOSE((unsigned)-1, (unsigned)-1, geteuid()), group = CHOOSE((unsigned)-1, getegid());
    int flags = CHOOSE(0, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, 1);
    say("fchownat(");
    int place = some_place();
    const char *path = some_path(0);
    say(", %s, %s, %#x)", user + 1 ? "own" : "-1", group + 1 ? "own" : "-1", flags);
    gave(syscall(SYS_fchownat, place, path, user, group, flags));
}

static void times_call(void) {
    struct timespec times[2];
    for (unsigned i = 0; i < 2; i++)
        times[i] = CHOOSE_AS(struct timespec, (struct timespec){0, UTIME_NOW}, (struct timespec){0, UTIME_OMIT}, (struct timespec){1000000000, 5},
                          (struct timespec){1, 999999999}, (struct timespec){0, 0}, (struct timespec){5, 1000000000},
                          (struct timespec){-1, 0}, (struct timespec){1234567890, 123456789});
    int flags = CHOOSE(0, 0, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, 1);
    void *where = chance(6) ? NULL : chance(20) ? bad_pointer() : times;
    say("utimensat(");
    int place = some_place();
    const char *path = place != AT_FDCWD && chance(4) ? NULL : some_path(0);
    if (!path && place == AT_FDCWD) path = "a";
    if (!path) {
        struct live *one = find_live(place);
        if (one && !(HAS_OFFSETS >> one->kind & 1) && !may(MODES_OF_CHANNELS)) place = -1, say("!");
        say("none");
    }
    if (where == times)
        say(", {%ld.%ld %ld.%ld}", times[0].tv_sec, times[0].tv_nsec, times[1].tv_sec, times[1].tv_nsec);
    else
        say(", %s", where ? "bad" : "now");
    say(", %#x)", flags);
    gave(syscall(SYS_utimensat, place, path, where, flags));
}

/* Times with microseconds, and with none. */
static void older_times_call(void) {
    struct { long seconds, part; } times[2];
    for (unsigned i = 0; i < 2; i++) times[i].seconds = CHOOSE(0L, 5L, -1L, 1234567890L), times[i].part = CHOOSE(0L, 7L, 999999L, 1000000L, -1L);
    unsigned which = pick(2);
    void *where = chance(6) ? NULL : chance(20) ? bad_pointer() : times;
    say("%s(", which ? "utimes" : "utime");
    const char *path = some_path(0);
    say(", %s{%ld.%ld %ld.%ld})", where == times ? "" : where ? "bad " : "now ", times[0].seconds, times[0].part, times[1].seconds, times[1].part);
    /* Two whole seconds in a row. */
    if (!which) times[0].part = times[1].seconds;
    gave(syscall(which ? SYS_utimes : SYS_utime, path, where));
}

/* What a file system is, as far as that does not change all the time. */
static void file_system_call(void) {
    static struct statfs status;
    void *where = chance(20) ? bad_pointer() : &status;
    long result;
    if (chance(2)) {
        say("fstatfs(");
        int number = some_descriptor(HAS_OFFSETS);
        struct live *one = find_live(number);
        if (one && !(OF(one->kind) & (OF(FILE_KIND) | OF(DIRECTORY) | OF(PLACE)))) number = -1, say("!");
        say(")");
        result = syscall(SYS_fstatfs, number, where);
    } else {
        say("statfs(");
        const char *path = some_path(0);
        say(")");
        result = syscall(SYS_statfs, path, where);
    }
    if (gave(result) == 0) say(" {%#lx %ld %ld}", (long)status.f_type, (long)status.f_bsize, (long)status.f_namelen);
}

static void umask_call(void) {
    unsigned mask = CHOOSE(022u, 0u, 077u, 0777u, 0177022u);
    say("umask(%o)", mask);
    say(" = %lo", syscall(SYS_umask, mask));
}

static void status_call(void) {
    switch (pick(12)) {
    case 0: case 1: case 2: case 3: stat_call(); break;
    case 4: statx_call(); break;
    case 5: access_call(); break;
    case 6: case 7: chmod_call(); break;
    case 8: chown_call(); break;
    case 9: switch (pick(4)) { case 0: umask_call(); break; case 1: file_system_call(); break; default: older_times_call(); } break;
    default: times_call();
    }
}
