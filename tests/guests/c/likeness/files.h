/* Open files: opening, reading and writing with all calls, offsets, lengths, holes, space, locks. */
static long some_offset(void) {
    static const long offsets[] = {0, 0, 1, 100, 511, 4095, 4096, 4097, 8192, 12287, 65536, 100000, 131072, 1 << 20,
                                   (1L << 31) - 1, 1L << 31, -1, -4096, INT64_MAX, INT64_MIN, INT64_MAX - 4095};
    return chance(3) ? (long)pick(20000) : ONE_OF(offsets);
}

/* Where writing leaves no file behind that is too long for a test. */
static long some_place_to_write(void) {
    long offset = some_offset();
    return offset > 1 << 21 && offset < INT64_MAX - 4095 ? 4096 : offset;
}

static void open_call(void) {
    static const int modes[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR, O_RDWR, O_ACCMODE};
    static const int extras[] = {O_CREAT, O_CREAT, O_CREAT, O_CREAT, O_CREAT | O_EXCL, O_CREAT | O_TRUNC, O_TRUNC, O_APPEND,
                                 O_APPEND | O_CREAT, O_DIRECTORY, O_DIRECTORY, O_NOFOLLOW, O_NOFOLLOW | O_CREAT, O_PATH,
                                 O_PATH | O_NOFOLLOW, O_CLOEXEC, O_NONBLOCK, O_DIRECTORY | O_CREAT, O_EXCL, O_NOATIME,
                                 0x8000000, O_CREAT | O_NOCTTY, O_SYNC, O_DSYNC | O_CREAT, O_TMPFILE, O_TMPFILE};
    int flags = ONE_OF(modes) | ONE_OF(extras);
    unsigned mode = chance(3) ? some_mode() : 0644;
    if ((flags & O_DIRECTORY) && chance(2)) flags &= ~O_ACCMODE;
    if (count_live() > 12) { close_one(live_of(ANY_KIND)); return; }
    say("openat(");
    int place = some_place();
    const char *path = (flags & O_DIRECTORY) && chance(3) ? (say("\".\""), ".") : some_path(0);
    say(", %#x, %o)", flags, mode);
    long number = gave(syscall(SYS_openat, place, path, flags, mode));
    if (number < 0) return;
    struct stat status;
    int is_directory = fstat((int)number, &status) == 0 && S_ISDIR(status.st_mode);
    add_live(number, flags & O_PATH ? PLACE : is_directory ? DIRECTORY : FILE_KIND);
}

static void say_bytes(long count) {
    if (count > 0) say(" #%08x", checksum(buffer, (size_t)count));
}

/* Something of the parts cannot be read or written. */
static int has_bad_part;

/* A list of parts of the buffer; gives how many there are. */
static int some_parts(struct iovec *parts) {
    has_bad_part = 0;
    int count = CHOOSE(1, 2, 3, 5, 0, 2, 3, 16);
    size_t at = 0;
    say("[");
    for (int i = 0; i < count; i++) {
        size_t length = chance(4) ? 0 : chance(3) ? 4096 : pick(6000);
        parts[i] = (struct iovec){buffer + at, length};
        at += length;
        say("%zu ", length);
    }
    if (count > 0 && chance(30)) parts[pick((unsigned)count)].iov_base = bad_pointer(), has_bad_part = 1, say("bad ");
    if (count > 0 && chance(30)) parts[pick((unsigned)count)].iov_len = (size_t)-1, say("huge ");
    say("]");
    if (chance(30)) count = CHOOSE(-1, 1025), say(" count %d", count);
    return count;
}

static void read_call(void) {
    static const char *const names[] = {"read", "pread64", "readv", "preadv", "preadv2"};
    unsigned which = pick(5);
    struct iovec parts[1025];
    memset(buffer, 0x5a, 100000);
    say("%s(", names[which]);
    int number = some_descriptor(HAS_BYTES);
    say(", ");
    size_t length = some_length();
    void *where = chance(25) ? bad_pointer() : buffer;
    int count = 0;
    if (which >= 2) count = some_parts(parts); else say("%s, %zu", where == buffer ? "buffer" : "bad", length);
    struct live *one = find_live(number);
    if (one && one->kind == DIRECTORY && !may(NOTHING_OF_A_DIRECTORY)) number = -1, say("!");
    long offset = which == 4 && chance(3) ? -1 : some_offset();
    int flags = which == 4 ? CHOOSE(0, 0, 0, 0x80000, 1) : 0;
    if (which != 0 && which != 2) say(", %ld", offset);
    if (which == 4) say(", %#x", flags);
    say(")");
    long got = which == 0   ? syscall(SYS_read, number, where, length)
               : which == 1 ? syscall(SYS_pread64, number, where, length, offset)
               : which == 2 ? syscall(SYS_readv, number, parts, count)
               : which == 3 ? syscall(SYS_preadv, number, parts, count, offset, 0)
                            : syscall(SYS_preadv2, number, parts, count, offset, 0, flags);
    say_bytes(gave(got));
}

static void write_call(void) {
    static const char *const names[] = {"write", "pwrite64", "writev", "pwritev", "pwritev2"};
    unsigned which = pick(5);
    struct iovec parts[1025];
    say("%s(", names[which]);
    int number = some_descriptor(HAS_BYTES);
    say(", ");
    size_t length = some_length();
    fill(which >= 2 ? 100000 : length);
    void *where = chance(25) ? bad_pointer() : buffer;
    int count = 0;
    if (which >= 2) count = some_parts(parts); else say("%s, %zu", where == buffer ? "buffer" : "bad", length);
    long offset = which == 4 && chance(3) ? -1 : some_place_to_write();
    /* A write that fails may make a file longer, on some file systems. */
    if (where != buffer && which < 2) which = 1, offset = 0, say(" at 0");
    failed_writes |= where != buffer || (which >= 2 && has_bad_part);
    if (which >= 2 && has_bad_part) which = which == 2 ? 3 : which, offset = 0, say(" at 0");
    struct live *one = find_live(number);
    if (one && one->kind == MEMORY_FILE && offset > 1L << 30 && !may(HIGHEST_OFFSET)) offset = 4096;
    /* Whether more than a number is one depends on which Linux it is. */
    if (one && one->kind == EVENT) number = -1, say("!");
    int flags = which == 4 ? chance(40) ? CHOOSE(2, 4) : CHOOSE(0, 0, 16, 0x80000) : 0;
    if (which != 0 && which != 2) say(", %ld", offset);
    if (which == 4) say(", %#x", flags);
    say(")");
    gave(which == 0   ? syscall(SYS_write, number, where, length)
         : which == 1 ? syscall(SYS_pwrite64, number, where, length, offset)
         : which == 2 ? syscall(SYS_writev, number, parts, count)
         : which == 3 ? syscall(SYS_pwritev, number, parts, count, offset, 0)
                      : syscall(SYS_pwritev2, number, parts, count, offset, 0, flags));
}

static void seek_call(void) {
    int whence = CHOOSE(SEEK_SET, SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE, 5, -1);
    say("lseek(");
    int number = some_descriptor(HAS_BYTES);
    /* Writing goes on from here; how far a file can go is its file system's affair. */
    long offset = some_place_to_write();
    if (offset >= INT64_MAX - 4095 && !may(HIGHEST_OFFSET)) offset = 100;
    struct live *one = find_live(number);
    if (whence > SEEK_END && failed_writes && !may(HIGHEST_OFFSET)) whence = SEEK_SET;
    if ((whence == SEEK_DATA || whence == SEEK_HOLE) && has_unwritten) whence = SEEK_SET;
    /* Where a directory ends, too. */
    if (one && one->kind == DIRECTORY && whence > SEEK_CUR && !may(HIGHEST_OFFSET)) number = -1, say("!");
    say(", %ld, %d)", offset, whence);
    gave(syscall(SYS_lseek, number, offset, whence));
}

static void truncate_call(void) {
    long length = some_place_to_write();
    if (chance(3)) {
        say("truncate(");
        const char *path = some_path(0);
        say(", %ld)", length);
        gave(syscall(SYS_truncate, path, length));
    } else {
        say("ftruncate(");
        int number = some_descriptor(HAS_BYTES);
        struct live *one = find_live(number);
        if (one && one->kind == MEMORY_FILE && length > 1L << 30 && !may(HIGHEST_OFFSET)) length = 4096;
        say(", %ld)", length);
        gave(syscall(SYS_ftruncate, number, length));
    }
}

static void allocate_call(void) {
    /* Nothing, KEEP_SIZE, PUNCH_HOLE with and without it, ZERO_RANGE, COLLAPSE, INSERT, nonsense. */
    int mode = CHOOSE(0, 0, 1, 3, 3, 0x10, 0x11, 8, 0x20, 0x80);
    long offset = some_place_to_write(), length = chance(4) ? CHOOSE(0L, -1L, mode ? 1L : INT64_MAX) : CHOOSE(1L, 100L, 4096L, 5000L, 65536L);
    say("fallocate(");
    int number = some_descriptor(OF(FILE_KIND));
    say(", %#x, %ld, %ld)", mode, offset, length);
    int allocates = (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE)) == 0;
    has_unwritten |= gave(syscall(SYS_fallocate, number, mode, offset, length)) == 0 && allocates;
}

static void copy_call(void) {
    long from = some_offset(), to = some_place_to_write(), size = (long)some_length();
    if (from > 1L << 40 && !may(HIGHEST_OFFSET)) from = 0;
    if (to > 1L << 40 && !may(HIGHEST_OFFSET)) to = 0;
    long *in = chance(2) ? &from : NULL, *out = chance(2) ? &to : NULL;
    int sends = chance(2);
    say(sends ? "sendfile(" : "copy_file_range(");
    int one = some_descriptor(OF(FILE_KIND));
    say(", ");
    int other = some_descriptor(OF(FILE_KIND));
    struct stat status[2];
    int is_same = fstat(one, &status[0]) == 0 && fstat(other, &status[1]) == 0 && status[0].st_ino == status[1].st_ino;
    if (sends && is_same && !may(COPIES_TO_ITSELF)) sends = 0, say(" instead copy_file_range");
    if (in) say(", %ld", from);
    if (out && !sends) say(", to %ld", to);
    say(", %ld)", size);
    gave(sends ? syscall(SYS_sendfile, one, other, in, size) : syscall(SYS_copy_file_range, one, in, other, out, size, 0));
    if (in) say(" %ld", from);
    if (out && !sends) say(" %ld", to);
}

static void other_call(void) {
    /* Waiting for the disk takes its time. */
    unsigned which = chance(20) ? pick(2) : 2 + pick(2);
    say("%s(", which == 0 ? "fsync" : which == 1 ? "fdatasync" : which == 2 ? "flock" : "fadvise64");
    int number = some_descriptor(HAS_OFFSETS);
    int how = which == 2 ? CHOOSE(LOCK_SH | LOCK_NB, LOCK_EX | LOCK_NB, LOCK_UN, 0, 3, 64) : CHOOSE(0, 1, 2, 3, 4, 5, 6, -1);
    long length = CHOOSE(0L, 100L, -1L);
    if (which >= 2) say(", %d", how);
    if (which == 3) say(", %ld", length);
    say(")");
    gave(which == 0   ? syscall(SYS_fsync, number)
         : which == 1 ? syscall(SYS_fdatasync, number)
         : which == 2 ? syscall(SYS_flock, number, how)
                      : syscall(SYS_fadvise64, number, 0L, length, how));
}

static void ahead_call(void) {
    unsigned which = pick(2), flags = CHOOSE(0u, 2u, 8u, 7u);
    long offset = CHOOSE(0L, 4096L, -1L, INT64_MAX), length = CHOOSE(0L, 100L, 4096L, -1L);
    say("%s(", which ? "readahead" : "sync_file_range");
    int number = some_descriptor(HAS_OFFSETS);
    say(", %ld, %ld, %u)", offset, length, flags);
    gave(which ? syscall(SYS_readahead, number, offset, length) : syscall(SYS_sync_file_range, number, offset, length, flags));
}

static void files_call(void) {
    if (live_of(OF(FILE_KIND)) == NULL || chance(8)) { open_call(); return; }
    switch (pick(16)) {
    case 0: open_call(); break;
    case 1: case 2: case 3: read_call(); break;
    case 4: case 5: case 6: case 7: write_call(); break;
    case 8: case 9: seek_call(); break;
    case 10: case 11: truncate_call(); break;
    case 12: allocate_call(); break;
    case 13: copy_call(); break;
    case 14: if (chance(2)) stat_call(); else ahead_call(); break;
    default: other_call();
    }
}
