/* Files as memory. */
static struct {
    struct file *file;
    unsigned char *memory;
    long at, count;
} kept;

/* A part of an open file that begins with a page, and maps it; nothing if there is no such. */
static unsigned char *map_part(int slot, int protection, int how, long *at, long *count) {
    struct file *file = table[slot]->file;
    if (!file->length) return 0;
    *at = draw(file->length) / 4096 * 4096;
    *count = 1 + count_drawn();
    if (*count > file->length - *at) *count = file->length - *at;
    tell("map %d %s%s: %ld at %ld", slot, how == MAP_SHARED ? "shared" : "private",
         protection & PROT_WRITE ? " to write" : "", *count, *at);
    unsigned char *memory = mmap(0, (size_t)*count, protection, how, fds[slot], *at);
    if (memory == MAP_FAILED) fail("mmap", 0, 1);
    return memory;
}

/* Bytes behind the end of the file, in its last page, are zeros. */
static void look_behind(const unsigned char *memory, const struct file *file, long at, long count) {
    long end = (at + count + 4095) / 4096 * 4096;
    for (long i = file->length; i < end; i++)
        if (memory[i - at]) fail("behind the end", 0, memory[i - at]);
}

static void map_to_read(void) {
    int slot = slot_drawn(1, 0);
    long at, count;
    if (slot < 0) return;
    unsigned char *memory = map_part(slot, PROT_READ, draw(2) ? MAP_SHARED : MAP_PRIVATE, &at, &count);
    if (!memory) return;
    compare("mmap", memory, table[slot]->file, at, count);
    if (at + count == table[slot]->file->length) look_behind(memory, table[slot]->file, at, count);
    is("munmap", 0, munmap(memory, (size_t)count));
}

/* What is written to private memory is nobody else's. */
static void map_private(void) {
    int slot = slot_drawn(1, 0);
    long at, count;
    if (slot < 0) return;
    unsigned char *memory = map_part(slot, PROT_READ | PROT_WRITE, MAP_PRIVATE, &at, &count);
    if (!memory) return;
    long from = draw(count), to = from + 1 + draw(count - from);
    memset(memory + from, 0x77, (size_t)(to - from));
    for (long i = from; i < to; i++)
        if (memory[i] != 0x77) fail("private memory", 0x77, memory[i]);
    compare("beside private bytes", memory, table[slot]->file, at, from);
    compare("beside private bytes", memory + to, table[slot]->file, at + to, count - to);
    long there = pread(fds[slot], buffer, (size_t)count, at);
    is("pread", count, there);
    compare("read under private bytes", buffer, table[slot]->file, at, count);
    is("munmap", 0, munmap(memory, (size_t)count));
}

/* Written as memory. */
static void map_to_write(void) {
    int slot = slot_drawn(1, 1);
    long at, count;
    if (slot < 0 || table[slot]->flags & O_APPEND) return;
    unsigned char *memory = map_part(slot, PROT_READ | PROT_WRITE, MAP_SHARED, &at, &count);
    if (!memory) return;
    fill_buffer(count);
    memcpy(memory, buffer, (size_t)count);
    is("munmap", 0, munmap(memory, (size_t)count));
    put(table[slot]->file, at, count);
}

/* Memory that stays, and shows what is done to the file meanwhile. */
static void keep_map(void) {
    int slot = slot_drawn(1, 0);
    if (kept.file) {
        tell("unmap what was kept");
        is("munmap", 0, munmap(kept.memory, (size_t)kept.count));
        let_go(kept.file);
        kept.file = 0;
    }
    if (slot < 0) return;
    long at, count;
    unsigned char *memory = map_part(slot, PROT_READ, MAP_SHARED, &at, &count);
    if (!memory) return;
    kept.file = hold(table[slot]->file);
    kept.memory = memory;
    kept.at = at;
    kept.count = count;
}

static void look_at_kept(void) {
    if (!kept.file) return;
    long there = there_is(kept.file, kept.at, kept.count);
    if (there) compare("memory that was kept", kept.memory, kept.file, kept.at, there);
    if (there && kept.at + there == kept.file->length) look_behind(kept.memory, kept.file, kept.at, there);
}
