/* Programs that something is the matter with: `ails WHAT AMOUNT …`. Ranks meet in barriers of PMI, AMOUNT times, or do
 * what they do for as many milliseconds. What they compute is a number of turns, however long these take.
 *
 *   slow ROUNDS RANK   that rank has eight times as much to do as each other
 *   uneven ROUNDS      each of the second half of the ranks has four times as much to do as each of the first
 *   talk ROUNDS        there is little to do between barriers
 *   spin ROUNDS        each rank computes, without barriers
 *   locks MS           threads of each rank compute one after the other, because of a lock
 *   disk MS FILE       writes a byte to the file, again and again, and waits until the disk has it
 *   pages MS FILE      maps the file, touches all of its pages, unmaps it, again and again
 *   memory 0 RANK      that rank takes more memory than there is, the others wait for it
 *   crash ROUNDS RANK  that rank touches what is not there, the others wait for it
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
/* What a rank that is slow does between two barriers, turns: far more than a barrier takes on a busy host. */
#define PIECE 32000000L
#define PAGE 4096

static int pmi, rank, size;
static long long end_ns;

static long long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void say(const char *line) {
    if (write(pmi, line, strlen(line)) != (ssize_t)strlen(line)) _exit(80);
}

/* One line of PMI. */
static const char *hear(void) {
    static char line[1024];
    for (size_t length = 0; length < sizeof line - 1; length++) {
        if (read(pmi, line + length, 1) != 1) _exit(81);
        if (line[length] == '\n') {
            line[length] = 0;
            return line;
        }
    }
    _exit(82);
}

static void barrier(void) {
    say("cmd=barrier_in\n");
    if (strcmp(hear(), "cmd=barrier_out") != 0) _exit(83);
}

static void compute(long turns) {
    volatile unsigned long sum = 0;
    for (long i = 0; i < turns; i++) sum += i;
}

static void rounds(long long count, long turns) {
    for (long long round = 0; round < count; round++) {
        compute(turns);
        barrier();
    }
}

/* A lock that goes to whoever waits longest: each thread waits for its own semaphore. */
static sem_t turn[THREADS];

static void *one_of_many(void *which) {
    long me = (long)which;
    while (now_ns() < end_ns) {
        sem_wait(&turn[me]);
        compute(PIECE / 8);
        sem_post(&turn[(me + 1) % THREADS]);
    }
    sem_post(&turn[(me + 1) % THREADS]);
    return NULL;
}

static void locks(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) sem_init(&turn[i], 0, i == 0);
    for (long i = 1; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, one_of_many, (void *)i) != 0) _exit(84);
    one_of_many((void *)0);
    for (int i = 1; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void disk(const char *name) {
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    while (now_ns() < end_ns)
        if (write(file, "x", 1) != 1 || fsync(file) != 0) _exit(85);
}

static void pages(const char *name) {
    int file = open(name, O_RDONLY), sum = 0;
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) _exit(86);
    while (now_ns() < end_ns) {
        const volatile char *bytes = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (bytes == MAP_FAILED) _exit(87);
        for (long at = 0; at < status.st_size; at += PAGE) sum += bytes[at];
        munmap((void *)bytes, status.st_size);
    }
}

static void memory(void) {
    for (;;) {
        char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (page == MAP_FAILED) _exit(88);
        *page = 1;
    }
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    const char *what = arguments[1], *more = count > 3 ? arguments[3] : "";
    long long amount = atoll(arguments[2]);
    end_ns = now_ns() + amount * 1000000;
    rank = atoi(getenv("PMI_RANK"));
    size = atoi(getenv("PMI_SIZE"));
    pmi = atoi(getenv("PMI_FD"));
    say("cmd=init pmi_version=1 pmi_subversion=1\n");
    hear();
    if (!strcmp(what, "slow")) rounds(amount, rank == atoi(more) ? PIECE : PIECE / 8);
    if (!strcmp(what, "uneven")) rounds(amount, rank >= size / 2 ? PIECE / 2 : PIECE / 8);
    if (!strcmp(what, "talk")) rounds(amount, PIECE / 2000);
    if (!strcmp(what, "spin")) compute(amount * PIECE / 32);
    if (!strcmp(what, "locks")) locks();
    if (!strcmp(what, "disk")) disk(more);
    if (!strcmp(what, "pages")) pages(more);
    if (!strcmp(what, "memory")) {
        if (rank == atoi(more)) memory();
        barrier();
    }
    if (!strcmp(what, "crash")) {
        rounds(amount, PIECE / 128);
        if (rank == atoi(more)) *(volatile int *)NULL = 1;
        barrier();
    }
    say("cmd=finalize\n");
    hear();
    return 0;
}
