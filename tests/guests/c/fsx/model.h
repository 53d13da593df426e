/* What files there are, what is in them, which are open and where, as it must be; and chance. */
#define NAMES 3
#define SLOTS 5
#define LENGTH_MAX 300000
#define COUNT_MAX 70000
#define BUFFER_BYTES (LENGTH_MAX + COUNT_MAX + 8192)
#define TOLD_MAX 48

/* A file, whatever it is called. */
struct file {
    unsigned char *bytes;
    long length;
    int links, holders;
    struct timespec changed;
};
/* An open file, which several descriptors may share. */
struct opening {
    struct file *file;
    int flags, descriptors;
    long position;
};
static const char *const path_of[NAMES] = {"fsx-a", "fsx-b", "fsx-c"};
static struct file *names[NAMES];
static struct opening *table[SLOTS];
static int fds[SLOTS];
static unsigned char *buffer;
static long step;

static char told[TOLD_MAX][200];
static long told_count;

/* Notes what is about to be done. */
__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...) {
    char *line = told[told_count++ % TOLD_MAX];
    int used = snprintf(line, 20, "%ld: ", step);
    va_list rest;
    va_start(rest, format);
    vsnprintf(line + used, sizeof told[0] - (size_t)used, format, rest);
    va_end(rest);
}

static void fail(const char *what, long expected, long got) {
    int error = errno;
    for (long i = told_count > TOLD_MAX ? told_count - TOLD_MAX : 0; i < told_count; i++)
        printf("%s\n", told[i % TOLD_MAX]);
    printf("step %ld: %s: expected %ld, got %ld (errno %d)\n", step, what, expected, got, error);
    fflush(stdout);
    _exit(1);
}

static void is(const char *what, long expected, long got) {
    if (expected != got) fail(what, expected, got);
}

static uint64_t state;
static long draw(long below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (long)(state % (uint64_t)below);
}

static long count_drawn(void) {
    switch (draw(7)) {
    case 0: return draw(20);
    case 1: return 4096 * (1 + draw(4));
    case 2: return 1 + draw(COUNT_MAX);
    case 3: return 4095 + draw(3);
    default: return 1 + draw(9000);
    }
}

/* Somewhere in the file, at the beginning of a page, at its end, or behind that. */
static long place_drawn(const struct file *file) {
    long at = draw(file->length + 1);
    switch (draw(8)) {
    case 0: at = at / 4096 * 4096; break;
    case 1: at = file->length; break;
    case 2: at = file->length + draw(10000); break;
    case 3: at = draw(LENGTH_MAX); break;
    }
    return at < LENGTH_MAX ? at : LENGTH_MAX;
}

static void fill_buffer(long count) {
    for (long i = 0; i < count; i++)
        buffer[i] = (unsigned char)(((unsigned long)step * 2654435761u + (unsigned long)i * 40503u) >> 8);
}

static int reads(const struct opening *one) { return (one->flags & O_ACCMODE) != O_WRONLY; }
static int writes(const struct opening *one) { return (one->flags & O_ACCMODE) != O_RDONLY; }

/* A descriptor that is good for this, or -1. */
static int slot_drawn(int to_read, int to_write) {
    for (int tried = 0, slot = (int)draw(SLOTS); tried < SLOTS; tried++, slot = (slot + 1) % SLOTS)
        if (table[slot] && (!to_read || reads(table[slot])) && (!to_write || writes(table[slot]))) return slot;
    return -1;
}

static struct file *hold(struct file *file) { return file->holders++, file; }

static void let_go(struct file *file) {
    if (--file->holders) return;
    free(file->bytes);
    free(file);
}

/* The bytes are there, with zeros where nothing was. */
static void grow(struct file *file, long length) {
    if (length <= file->length) return;
    memset(file->bytes + file->length, 0, (size_t)(length - file->length));
    file->length = length;
}

/* Bytes of the buffer are written. */
static void put(struct file *file, long at, long count) {
    if (count == 0) return;
    grow(file, at + count);
    memcpy(file->bytes + at, buffer, (size_t)count);
}

static void cut(struct file *file, long length) {
    grow(file, length);
    file->length = length;
}

static long there_is(const struct file *file, long at, long count) {
    long there = at < file->length ? file->length - at : 0;
    return there < count ? there : count;
}

/* What was read is what is there. */
static void compare(const char *what, const unsigned char *got, const struct file *file, long at, long count) {
    const unsigned char *wanted = file->bytes + at;
    if (memcmp(got, wanted, (size_t)count) == 0) return;
    long first = 0, last = count - 1, different = 0;
    while (got[first] == wanted[first]) first++;
    while (got[last] == wanted[last]) last--;
    for (long i = first; i <= last; i++) different += got[i] != wanted[i];
    tell("%ld bytes differ of %ld at %ld: from %ld to %ld, of a file of %ld", different, count, at, at + first, at + last,
         file->length);
    fail(what, wanted[first], got[first]);
}
