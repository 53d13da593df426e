/* Reading and writing, by each call that does, and opening and closing. */
static void open_one(void) {
    static const int ways[] = {O_RDONLY, O_RDWR, O_RDWR, O_RDWR, O_WRONLY, O_RDWR | O_APPEND, O_WRONLY | O_APPEND,
                               O_RDWR | O_TRUNC, O_WRONLY | O_TRUNC, O_RDWR | O_SYNC, O_RDWR | O_DSYNC, O_RDONLY | O_NOATIME};
    int slot = (int)draw(SLOTS), name = (int)draw(NAMES), flags = ways[draw(sizeof ways / sizeof *ways)], excl = draw(8) == 0;
    if (table[slot]) return;
    int creates = (flags & O_ACCMODE) != O_RDONLY, expected = 0;
    if (creates) flags |= O_CREAT | (excl ? O_EXCL : 0);
    if (!names[name] && !creates) expected = ENOENT;
    if (names[name] && creates && excl) expected = EEXIST;
    tell("open %s %#o as %d", path_of[name], flags, slot);
    int fd = open(path_of[name], flags, 0644);
    if (expected) {
        is("open", -1, fd);
        is("open's errno", expected, errno);
        return;
    }
    if (fd < 0) fail("open", 0, fd);
    if (!names[name]) {
        names[name] = calloc(1, sizeof **names);
        names[name]->bytes = malloc(BUFFER_BYTES);
        names[name]->links = 1;
        hold(names[name]);
    }
    if (flags & O_TRUNC) names[name]->length = 0;
    struct opening *opening = malloc(sizeof *opening);
    *opening = (struct opening){.file = hold(names[name]), .flags = flags, .descriptors = 1};
    table[slot] = opening;
    fds[slot] = fd;
}

static void close_one(void) {
    int slot = slot_drawn(0, 0);
    if (slot < 0) return;
    tell("close %d", slot);
    is("close", 0, close(fds[slot]));
    struct opening *opening = table[slot];
    table[slot] = 0;
    if (--opening->descriptors) return;
    let_go(opening->file);
    free(opening);
}

static void dup_one(void) {
    int slot = slot_drawn(0, 0), other = (int)draw(SLOTS);
    if (slot < 0 || table[other]) return;
    tell("dup %d as %d", slot, other);
    fds[other] = dup(fds[slot]);
    if (fds[other] < 0) fail("dup", 0, fds[other]);
    table[other] = table[slot];
    table[other]->descriptors++;
}

/* The buffer's bytes in odd pieces. */
static int pieces(struct iovec *parts, long count) {
    int used = 0;
    for (long at = 0; at < count || used == 0;) {
        long length = used == 9 ? count - at : draw(5) == 0 ? 0 : 1 + draw(draw(3) ? 700 : 9000);
        if (length > count - at) length = count - at;
        parts[used++] = (struct iovec){buffer + at, (size_t)length};
        at += length;
    }
    return used;
}

static void read_some(void) {
    int slot = slot_drawn(1, 0), how = (int)draw(5);
    if (slot < 0) return;
    struct opening *one = table[slot];
    struct iovec parts[10];
    long at = place_drawn(one->file), count = count_drawn();
    if (how % 2 == 0) at = one->position;
    long there = there_is(one->file, at, count), got;
    memset(buffer, 0xee, (size_t)count);
    tell("read (%d) of %d: %ld at %ld", how, slot, count, at);
    if (how == 0) got = read(fds[slot], buffer, (size_t)count);
    else if (how == 1) got = pread(fds[slot], buffer, (size_t)count, at);
    else if (how == 2) got = readv(fds[slot], parts, pieces(parts, count));
    else if (how == 3) got = preadv(fds[slot], parts, pieces(parts, count), at);
    else got = preadv2(fds[slot], parts, pieces(parts, count), -1, 0);
    is("read", there, got);
    if (how % 2 == 0) one->position += got;
    compare("read", buffer, one->file, at, there);
    for (long i = there; i < count; i++)
        if (buffer[i] != 0xee) fail("behind what was read", 0xee, buffer[i]);
}

static void write_some(void) {
    int slot = slot_drawn(0, 1), how = (int)draw(5);
    if (slot < 0) return;
    struct opening *one = table[slot];
    struct iovec parts[10];
    long at = place_drawn(one->file), count = count_drawn(), put_at;
    if (how % 2 == 0) at = one->position;
    put_at = one->flags & O_APPEND ? one->file->length : at;
    if (put_at > LENGTH_MAX) return;
    fill_buffer(count);
    tell("write (%d) to %d: %ld at %ld", how, slot, count, put_at);
    if (how == 0) is("write", count, write(fds[slot], buffer, (size_t)count));
    else if (how == 1) is("pwrite", count, pwrite(fds[slot], buffer, (size_t)count, at));
    else if (how == 2) is("writev", count, writev(fds[slot], parts, pieces(parts, count)));
    else if (how == 3) is("pwritev", count, pwritev(fds[slot], parts, pieces(parts, count), at));
    else is("pwritev2", count, pwritev2(fds[slot], parts, pieces(parts, count), -1, 0));
    put(one->file, put_at, count);
    if (how % 2 == 0 && count) one->position = put_at + count;
}

/* Past the host's own memory of the file. */
static void direct(void) {
    int name = (int)draw(NAMES), to_write = (int)draw(2);
    struct file *file = names[name];
    if (!file) return;
    long at = place_drawn(file) / 4096 * 4096, count = 4096 * (1 + draw(8));
    fill_buffer(count);
    tell("%s directly %s: %ld at %ld", to_write ? "write" : "read", path_of[name], count, at);
    int fd = open(path_of[name], O_RDWR | O_DIRECT);
    /* Not every file system has that. */
    if (fd < 0 && errno == EINVAL) fd = open(path_of[name], O_RDWR);
    if (fd < 0) fail("open O_DIRECT", 0, fd);
    if (to_write) {
        is("pwrite O_DIRECT", count, pwrite(fd, buffer, (size_t)count, at));
        put(file, at, count);
    } else {
        long there = there_is(file, at, count);
        is("pread O_DIRECT", there, pread(fd, buffer, (size_t)count, at));
        compare("pread O_DIRECT", buffer, file, at, there);
    }
    is("close", 0, close(fd));
}
