/* Ranks of a node that share memory by name. Arguments: how many of them a node has, what to do.
   "turns N": count to N together, each rank of a node its own numbers, and say which node's memory that was.
   "pages N": the same, each number on the next page of many that are shared, and say if a page or the number is not
   what it must be after what this rank did last: what was of two moments would show.
   "sleep N": the same with a mutex and a condition that work between processes, waiting asleep.
   "fill SEED": fill a file in /dev/shm with a pattern, say "filled", wait for the end of standard input, leave it there.
   "calls": what the calls say of a file in /dev/shm. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "pattern.h"

#define BYTES (1UL << 20)
#define NAME "/of-the-node"

struct shared {
    atomic_long number;
    atomic_int ready;
    char node[64];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    long counted;
};

static void check(int good, const char *what) {
    if (good) return;
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static void *map(int file, unsigned long bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    check(at != MAP_FAILED, "mmap");
    return at;
}

/* The memory of the node; its first rank makes it ready. */
static struct shared *attach(int local) {
    int file = shm_open(NAME, O_CREAT | O_RDWR, 0600);
    check(file >= 0, "shm_open");
    check(ftruncate(file, BYTES) == 0, "ftruncate");
    struct shared *shared = map(file, BYTES);
    close(file);
    if (local == 0) {
        gethostname(shared->node, sizeof shared->node);
        pthread_mutexattr_t mutex;
        pthread_condattr_t condition;
        pthread_mutexattr_init(&mutex);
        pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
        pthread_mutex_init(&shared->mutex, &mutex);
        pthread_condattr_init(&condition);
        pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
        pthread_cond_init(&shared->changed, &condition);
        atomic_store(&shared->ready, 1);
    }
    while (!atomic_load(&shared->ready)) sched_yield();
    return shared;
}

static void take_turns(struct shared *shared, int local, int ranks, long end) {
    for (;;) {
        long now = atomic_load(&shared->number);
        if (now >= end) return;
        /* Spinning, but for what the kernel does about it. */
        if (now % ranks == local) atomic_store(&shared->number, now + 1);
    }
}

#define PAGES 200
#define WORDS (4096 / sizeof(long))

static void turn_pages(struct shared *shared, int local, int ranks, long end) {
    long *pages = (long *)((char *)shared + 4096), mine = -1;
    for (;;) {
        long now = atomic_load(&shared->number);
        if (mine >= 0 && (now <= mine || now > mine + ranks)) {
            printf("rank %d did %ld, and it is %ld's turn\n", local, mine, now);
            exit(1);
        }
        if (now >= end) return;
        if (now % ranks != local) {
            sched_yield();
            continue;
        }
        long *page = pages + now % PAGES * WORDS;
        if (now >= PAGES && *page != now - PAGES) {
            printf("rank %d finds %ld where %ld was last\n", local, *page, now - PAGES);
            exit(1);
        }
        *page = mine = now;
        atomic_store(&shared->number, now + 1);
    }
}

static void sleep_in_turns(struct shared *shared, int local, int ranks, long end) {
    pthread_mutex_lock(&shared->mutex);
    while (shared->counted < end) {
        if (shared->counted % ranks == local) {
            shared->counted++;
            pthread_cond_broadcast(&shared->changed);
        } else {
            pthread_cond_wait(&shared->changed, &shared->mutex);
        }
    }
    pthread_mutex_unlock(&shared->mutex);
}

static void fill(unsigned long seed) {
    int file = shm_open("/secret", O_CREAT | O_EXCL | O_RDWR, 0600);
    check(file >= 0 && ftruncate(file, BYTES) == 0, "/secret");
    pattern_fill(map(file, BYTES), BYTES, seed);
    void *anonymous = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(anonymous != MAP_FAILED, "mmap");
    pattern_fill(anonymous, BYTES, seed);
    char name[128] = "/dev/shm/";
    for (int word = 0; word < 4; word++) sprintf(name + strlen(name), "%016lx", pattern_word(seed, word));
    check(open(name, O_CREAT | O_RDWR, 0600) >= 0, name);
    puts("filled");
    fflush(stdout);
    while (getchar() != EOF) {}
}

static void calls(void) {
    char text[16] = "";
    struct stat status;
    struct statfs system;
    int file = shm_open("/a", O_CREAT | O_EXCL | O_RDWR, 0640);
    check(file >= 0, "shm_open");
    printf("again: %s\n", shm_open("/a", O_CREAT | O_EXCL | O_RDWR, 0640) < 0 ? strerror(errno) : "made");
    printf("nested: %s\n", shm_open("/b/a", O_CREAT | O_RDWR, 0640) < 0 ? strerror(errno) : "made");
    check(ftruncate(file, 10000) == 0 && fstat(file, &status) == 0, "ftruncate");
    printf("%o %ld %ld\n", status.st_mode, (long)status.st_size, (long)status.st_nlink);
    char *here = map(file, 10000), *there = map(file, 10000);
    strcpy(here + 9000, "hello");
    check(pread(file, text, 5, 9000) == 5, "pread");
    printf("%s %s\n", there + 9000, text);
    check(pwrite(file, "J", 1, 9000) == 1 && lseek(file, 0, SEEK_END) == 10000, "pwrite");
    check(posix_fallocate(file, 0, 20000) == 0 && fstat(file, &status) == 0, "posix_fallocate");
    printf("%s %ld\n", here + 9000, (long)status.st_size);
    check(statfs("/dev/shm", &system) == 0, "statfs");
    printf("%lx\n", (long)system.f_type);
    check(rename("/dev/shm/a", "/dev/shm/b") == 0, "rename");
    DIR *directory = opendir("/dev/shm");
    for (struct dirent *entry; (entry = readdir(directory));)
        if (entry->d_name[0] == 'b') printf("%s\n", entry->d_name);
    check(shm_unlink("/b") == 0, "shm_unlink");
    printf("%s, %s\n", shm_open("/b", O_RDWR, 0) < 0 ? strerror(errno) : "there", there + 9000);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    /* Process ids are ranks, counted from 1000. */
    int ranks = atoi(argv[1]), rank = (int)getpid() - 1000, local = rank % ranks;
    long number = argc > 3 ? atol(argv[3]) : 0;
    if (!strcmp(argv[2], "calls")) {
        calls();
        return 0;
    }
    if (!strcmp(argv[2], "fill")) {
        fill(number);
        return 0;
    }
    struct shared *shared = attach(local);
    if (!strcmp(argv[2], "turns")) take_turns(shared, local, ranks, number);
    if (!strcmp(argv[2], "pages")) turn_pages(shared, local, ranks, number);
    if (!strcmp(argv[2], "sleep")) sleep_in_turns(shared, local, ranks, number);
    char name[64] = "";
    gethostname(name, sizeof name);
    printf("rank %d on %s: %ld in the memory of %s\n", rank, name,
           shared->counted ? shared->counted : atomic_load(&shared->number), shared->node);
    return 0;
}
