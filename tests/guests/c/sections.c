/* Calls that take long, and what the node does meanwhile.
 *
 * sections measure MIB SPARSE: what the longest stretch was that the kernel did not look at anything else in, for each
 *   of: bringing in, protecting and unmapping MIB, protecting SPARSE pages that lie far apart.
 * sections beside MIB: rank 1 brings in and unmaps MIB, and ends with as much; rank 0 counts its calls of stat
 *   meanwhile, and says how long the longest took. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define READ_WRITE (PROT_READ | PROT_WRITE)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* The longest section of all cores since this was last asked for. */
static long longest(void) {
    FILE *file = fopen("/proc/sections", "r");
    if (!file) fail("/proc/sections");
    long most = 0, ns;
    while (fscanf(file, "core %*d %ld ns\n", &ns) == 1)
        if (ns > most) most = ns;
    fclose(file);
    return most;
}

static long free_kib(void) {
    FILE *file = fopen("/proc/meminfo", "r");
    if (!file) fail("/proc/meminfo");
    char line[128];
    long kib = -1;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemFree: %ld", &kib) == 1) break;
    fclose(file);
    return kib;
}

static char *map(size_t length, int flags) {
    char *memory = mmap(NULL, length, READ_WRITE, PRIVATE | flags, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    return memory;
}

static void say(const char *what) { printf("%s %ld\n", what, longest()); }

static void measure(size_t length, size_t sparse) {
    longest();
    char *memory = map(length, MAP_POPULATE);
    say("populate");
    if (mprotect(memory, length, PROT_READ)) fail("mprotect");
    say("mprotect");
    if (munmap(memory, length)) fail("munmap");
    say("munmap");
    size_t step = 2 << 20, reach = sparse * step;
    memory = map(reach, MAP_NORESERVE);
    for (size_t page = 0; page < sparse; page++) memory[page * step] = 1;
    say("sparse-touch");
    if (mprotect(memory, reach, PROT_READ)) fail("mprotect");
    say("sparse-mprotect");
    if (munmap(memory, reach)) fail("munmap");
    say("sparse-munmap");
}

enum { START, POPULATE, UNMAP, END, PHASES };

struct shared {
    _Atomic int phase;
    _Atomic int watched;
};

static void work(struct shared *shared, size_t length) {
    while (!atomic_load(&shared->watched)) usleep(1000);
    atomic_store(&shared->phase, POPULATE);
    char *memory = map(length, MAP_POPULATE);
    atomic_store(&shared->phase, UNMAP);
    if (munmap(memory, length)) fail("munmap");
    atomic_store(&shared->phase, START);
    map(length, MAP_POPULATE);
    atomic_store(&shared->phase, END);
    _exit(0);
}

static void watch(struct shared *shared, size_t length) {
    static const char *names[PHASES] = {"start", "populate", "unmap", "end"};
    long calls[PHASES] = {0}, worst_ns[PHASES] = {0}, before_kib = free_kib();
    atomic_store(&shared->watched, 1);
    for (long last_kib = 0;;) {
        int phase = atomic_load(&shared->phase);
        struct stat status;
        long start_ns = now_ns();
        if (stat(".", &status)) fail("stat");
        long took_ns = now_ns() - start_ns;
        if (took_ns > worst_ns[phase]) worst_ns[phase] = took_ns;
        if (atomic_load(&shared->phase) != phase) continue;
        calls[phase]++;
        if (phase != END) continue;
        /* Until the memory of the other rank is there again. */
        last_kib = free_kib();
        if (last_kib + (long)(length >> 14) > before_kib) break;
    }
    for (int phase = POPULATE; phase < PHASES; phase++)
        printf("%s-calls %ld\n%s-worst-ns %ld\n", names[phase], calls[phase], names[phase], worst_ns[phase]);
    printf("end-section %ld\n", longest());
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    size_t length = (size_t)atol(argv[2]) << 20;
    if (!strcmp(argv[1], "measure")) {
        measure(length, argc > 3 ? atol(argv[3]) : 0);
        return 0;
    }
    int file = open("/dev/shm/sections", O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096)) fail("/dev/shm/sections");
    struct shared *shared = mmap(NULL, 4096, READ_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) fail("mmap");
    const char *rank = getenv("PMI_RANK");
    if (rank && atoi(rank) == 1) work(shared, length);
    watch(shared, length);
    return 0;
}
