/* Lengths, holes and places. */
static void cut_open(void) {
    int slot = slot_drawn(0, 1);
    if (slot < 0) return;
    long length = place_drawn(table[slot]->file);
    tell("ftruncate %d to %ld", slot, length);
    is("ftruncate", 0, ftruncate(fds[slot], length));
    cut(table[slot]->file, length);
}

static void cut_named(void) {
    int name = (int)draw(NAMES);
    if (!names[name]) return;
    long length = place_drawn(names[name]);
    tell("truncate %s to %ld", path_of[name], length);
    is("truncate", 0, truncate(path_of[name], length));
    cut(names[name], length);
}

/* One of fallocate(2)'s ways; nothing is changed where the file system does not have it. */
static int change_space(int slot, int mode, long at, long count) {
    tell("fallocate %d mode %#x: %ld at %ld", slot, mode, count, at);
    int result = fallocate(fds[slot], mode, at, count);
    if (result < 0 && errno == EOPNOTSUPP) return 0;
    is("fallocate", 0, result);
    return 1;
}

static void allocate(void) {
    int slot = slot_drawn(0, 1), keeps = (int)draw(2);
    if (slot < 0) return;
    struct file *file = table[slot]->file;
    long at = place_drawn(file), count = 1 + count_drawn();
    if (change_space(slot, keeps ? FALLOC_FL_KEEP_SIZE : 0, at, count) && !keeps) grow(file, at + count);
}

static void clear(struct file *file, long at, long count) {
    long there = there_is(file, at, count);
    if (there) memset(file->bytes + at, 0, (size_t)there);
}

static void punch(void) {
    int slot = slot_drawn(0, 1);
    if (slot < 0) return;
    struct file *file = table[slot]->file;
    long at = place_drawn(file), count = 1 + count_drawn();
    if (change_space(slot, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, count)) clear(file, at, count);
}

static void zero_range(void) {
    int slot = slot_drawn(0, 1), keeps = (int)draw(2);
    if (slot < 0) return;
    struct file *file = table[slot]->file;
    long at = place_drawn(file), count = 1 + count_drawn();
    if (!change_space(slot, FALLOC_FL_ZERO_RANGE | (keeps ? FALLOC_FL_KEEP_SIZE : 0), at, count)) return;
    clear(file, at, count);
    if (!keeps) grow(file, at + count);
}

static void seek_to(void) {
    int slot = slot_drawn(0, 0), whence = (int)draw(3);
    if (slot < 0) return;
    struct opening *one = table[slot];
    long from = whence == SEEK_CUR ? one->position : whence == SEEK_END ? one->file->length : 0, to = place_drawn(one->file);
    tell("lseek %d by %ld from %ld (%d)", slot, to - from, from, whence);
    is("lseek", to, lseek(fds[slot], to - from, whence));
    one->position = to;
}

/* What is left out between data is zeros. Where a hole is, is the file system's affair. */
static void seek_data(void) {
    int slot = slot_drawn(0, 0), hole = (int)draw(2);
    if (slot < 0) return;
    struct opening *one = table[slot];
    struct file *file = one->file;
    long at = draw(file->length + 100);
    tell("lseek %d to %s from %ld", slot, hole ? "hole" : "data", at);
    long got = lseek(fds[slot], at, hole ? SEEK_HOLE : SEEK_DATA), end = got;
    if (got < 0) {
        is("lseek's errno", ENXIO, errno);
        if (hole && at < file->length) fail("a file ends with a hole", file->length, got);
        end = file->length;
    } else {
        if (got < at || got > file->length) fail("SEEK_DATA or SEEK_HOLE", at, got);
        is("position", got, lseek(fds[slot], 0, SEEK_CUR));
        /* What comes is not to follow from where holes are. */
        is("lseek", one->position, lseek(fds[slot], one->position, SEEK_SET));
    }
    if (hole) return;
    for (long i = at; i < end; i++)
        if (file->bytes[i]) fail("bytes that are no data", 0, file->bytes[i]);
}
