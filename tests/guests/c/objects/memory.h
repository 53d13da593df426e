/* Memory: eaten, cut into areas, shared. */
#include "common.h"

#include <stdio.h>
#include <sys/sysinfo.h>

static unsigned long free_bytes(void) {
    struct sysinfo now;
    return sysinfo(&now) == 0 ? now.freeram * now.mem_unit : 0;
}

/* Takes that share of the memory that is free, percent. A hundred: until there is no more. */
static void eat(int percent, const char *way) {
    (void)way;
    unsigned long wanted = free_bytes() / 100 * (unsigned long)percent;
    for (unsigned long size = 1 << 20; size >= 4096; size /= 4) {
        while (percent >= 100 || wanted >= size) {
            unsigned long before = free_bytes();
            int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
            if (mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) break;
            if (free_bytes() >= before) break;
            wanted -= wanted < size ? wanted : size;
        }
    }
}

/* No two neighbours have the same rights, so that no two are one area. */
static void make_areas(int count, const char *way) {
    (void)way;
    for (int i = 0; i < count; i++) {
        int rights = i & 1 ? PROT_READ : PROT_READ | PROT_WRITE;
        char *area = mmap(NULL, 4096, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (area == MAP_FAILED) return;
        if (i % 16 == 0) *area = 1;
    }
}

/* One mapping, every second page of which becomes an area of its own. */
static void make_splits(int count, const char *way) {
    (void)way;
    size_t bytes = (size_t)count * 8192;
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return;
    for (int i = 0; i < count; i++)
        if (mprotect(start + (size_t)i * 8192, 4096, PROT_NONE) != 0) return;
    /* Half of it moves, if it can. */
    mremap(start + bytes / 2 / 8192 * 8192 + 4096, 4096, 8192, MREMAP_MAYMOVE);
}

/* Files in /dev/shm of 64 KiB, mapped and written. */
static void make_shared(int count, const char *way) {
    char name[40];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "/dev/shm/objects-%d-%d", (int)getpid(), i);
        int file = open(name, O_RDWR | O_CREAT, 0600);
        if (!keep(file) || ftruncate(file, 1 << 16) != 0) return;
        char *shared = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (strcmp(way, "unlink") == 0) unlink(name);
        if (shared == MAP_FAILED) return;
        /* Not by touching it: without memory that would be the end. */
        for (int at = 0; at < 1 << 16; at += 4096)
            if (pwrite(file, "x", 1, at) != 1) return;
    }
}
