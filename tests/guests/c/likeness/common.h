/* Chance, output, and the fresh directory of each sequence. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* ---- Chance: a generator of its own for each sequence. ---- */

static uint64_t rng_state;

static uint64_t rng(void) {
    rng_state += 0x9e3779b97f4a7c15;
    uint64_t z = rng_state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static void rng_start(uint64_t seed, uint64_t number) {
    rng_state = number;
    uint64_t mixed = rng();
    rng_state = seed * 0x2545f4914f6cdd1d;
    rng_state = rng() ^ mixed * 0xda942042e4dd58b5;
}

static unsigned pick(unsigned choices) { return (unsigned)(rng() % choices); }

/* Once in so many times. */
static int chance(unsigned times) { return pick(times) == 0; }

#define CHOOSE_AS(type, ...) ({ const type choices_[] = {__VA_ARGS__}; \
    choices_[pick(sizeof choices_ / sizeof *choices_)]; })
#define FIRST_OF(first, ...) first
#define CHOOSE(...) CHOOSE_AS(__typeof__(FIRST_OF(__VA_ARGS__, 0)), __VA_ARGS__)
#define CHOOSE_TEXT(...) CHOOSE_AS(char *, __VA_ARGS__)
#define ONE_OF(array) ((array)[pick(sizeof(array) / sizeof *(array))])

/* ---- Output: a line for each call, written when the sequence is over. ---- */

static char output[1 << 20];
static size_t output_used;
static int flushes_every_line;

static void flush(void) {
    for (size_t at = 0; at < output_used;) {
        long wrote = write(1, output + at, output_used - at);
        if (wrote <= 0) _exit(3);
        at += (size_t)wrote;
    }
    output_used = 0;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    size_t room = sizeof output - output_used;
    int length = vsnprintf(output + output_used, room, format, list);
    va_end(list);
    if (length < 0 || (size_t)length >= room) _exit(4);
    output_used += (size_t)length;
}

static void begin_line(unsigned long number, unsigned at) { say("%lu.%u ", number, at); }

static void end_line(void) {
    say("\n");
    if (flushes_every_line || output_used > sizeof output - 65536) flush();
}

/* What a call gave. */
static long gave(long result) {
    int error = errno;
    if (result < 0)
        say(" = %s", strerrorname_np(error) ? strerrorname_np(error) : "unknown error");
    else
        say(" = %ld", result);
    errno = error;
    return result;
}

/* As gave(), for a result that is another number on each machine. */
static long gave_some(long result, const char *symbol) {
    if (result < 0) return gave(result);
    say(" = %s", symbol);
    return result;
}

static uint32_t checksum(const void *bytes, size_t length) {
    const unsigned char *at = bytes;
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < length; i++) sum = (sum ^ at[i]) * 16777619u;
    return sum;
}

/* Of signals, for those who wait. */
static uint64_t some_set(void);
static size_t set_size(void);

/* ---- What calls read and write. ---- */

#define BUFFER_BYTES (1 << 19)
static unsigned char buffer[BUFFER_BYTES + 64];

/* Where no memory is, or none of ours. */
static void *bad_pointer(void) {
    return CHOOSE((void *)0, (void *)8, (void *)0xffff800000001000, (void *)0x1234567800000000, (void *)-1L);
}

static void fill(size_t length) {
    uint64_t word = rng();
    for (size_t i = 0; i < length; i++) {
        if ((i & 511) == 0) word = word * 6364136223846793005u + 1442695040888963407u;
        buffer[i] = (unsigned char)(word >> (8 * (i & 7)));
    }
}

static size_t some_length(void) {
    static const size_t lengths[] = {0, 1, 2, 7, 8, 100, 511, 512, 513, 4095, 4096, 4097, 5000, 8192, 12288, 20000,
                                     65535, 65536, 65537, 131072, 131073, 300000};
    return chance(3) ? pick(9000) : ONE_OF(lengths);
}

/* A write to a file failed, of which a file system may keep room and the time. */
static int failed_writes;
/* Bytes were allocated and not written: whether they are a hole depends on which of their pages the host has in memory,
   so also on what was read ahead. */
static int has_unwritten;

/* ---- The directory of a sequence. ---- */

static int home_directory;

static void remove_all(int directory) {
    char names[64][256];
    unsigned count;
    do {
        int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY);
        DIR *list = fdopendir(copy);
        struct dirent *entry;
        for (count = 0; list && count < 64 && (entry = readdir(list));)
            if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) strcpy(names[count++], entry->d_name);
        if (list) closedir(list);
        for (unsigned i = 0; i < count; i++) {
            if (unlinkat(directory, names[i], 0) == 0) continue;
            fchmodat(directory, names[i], 0700, 0);
            int inside = openat(directory, names[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
            if (inside >= 0) remove_all(inside), close(inside);
            if (unlinkat(directory, names[i], AT_REMOVEDIR) != 0) _exit(5);
        }
    } while (count > 0);
}

/* Something to begin with. */
static void populate(void) {
    memset(buffer, 'p', 6000);
    int file = openat(AT_FDCWD, "a", O_CREAT | O_RDWR, 0644);
    if (file < 0 || write(file, buffer, 6000) != 6000 || close(file) != 0) _exit(9);
    if (mkdir("b", 0777) != 0 || mkdir("b/b", 0777) != 0 || link("a", "b/a") != 0 || symlink("b", "c") != 0) _exit(10);
    if ((file = open("d", O_CREAT | O_RDWR, 0644)) < 0 || close(file) != 0) _exit(11);
}

/* All that is in the working directory is removed after each sequence, so there may be nothing of anybody else's. */
static void require_empty_directory(void) {
    DIR *list = opendir(".");
    struct dirent *entry;
    while (list && (entry = readdir(list)))
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
            fprintf(stderr, "likeness: it removes all there is in its working directory: run it in an empty one\n");
            _exit(18);
        }
    if (list == NULL) _exit(19);
    closedir(list);
}

static void enter_fresh_directory(void) {
    home_directory = open(".", O_RDONLY | O_DIRECTORY);
    if (home_directory < 0 || mkdir("w", 0777) != 0 || chdir("w") != 0) _exit(6);
    /* Out of the way of the numbers that calls give. */
    if (dup3(home_directory, 200, O_CLOEXEC) != 200 || close(home_directory) != 0) _exit(7);
    home_directory = 200;
    fchmod(home_directory, 0755);
    populate();
}

static void leave_directory(void) {
    if (fchdir(home_directory) != 0 || fchmod(home_directory, 0755) != 0) _exit(8);
    remove_all(home_directory);
    close(home_directory);
    umask(022);
}

/* Makes the working directory the root, as it is on a node, so that no path leads out of it. Whoever is not root needs
   a user namespace for that. */
static void become_confined(void) {
    struct stat here, root;
    if (stat(".", &here) != 0 || stat("/", &root) != 0) _exit(12);
    if (here.st_dev == root.st_dev && here.st_ino == root.st_ino) return;
    if (geteuid() != 0) {
        unsigned user = geteuid(), group = getegid();
        char map[2][64];
        sprintf(map[0], "%u %u 1", user, user), sprintf(map[1], "%u %u 1", group, group);
        static const char *const files[] = {"/proc/self/uid_map", "/proc/self/setgroups", "/proc/self/gid_map"};
        const char *const texts[] = {map[0], "deny", map[1]};
        if (unshare(CLONE_NEWUSER) != 0) _exit(13);
        for (unsigned i = 0; i < 3; i++) {
            int file = open(files[i], O_WRONLY);
            if (file < 0 || write(file, texts[i], strlen(texts[i])) < 0 || close(file) != 0) _exit(14);
        }
    }
    if (chroot(".") != 0 || chdir("/") != 0 || stat(".", &here) != 0 || stat("/", &root) != 0) _exit(15);
    if (here.st_dev != root.st_dev || here.st_ino != root.st_ino || access("/dev", F_OK) == 0) _exit(16);
}

/* A node's processes have no privileges over their node, but what the I/O node's user may do with files. */
static void give_up_privileges(void) {
    struct { uint32_t version; int pid; } header = {0x20080522, 0};
    struct { uint32_t effective, permitted, inheritable; } sets[2] = {{0, 0, 0}, {0, 0, 0}};
    if (syscall(SYS_capget, &header, sets) == 0) {
        uint32_t of_files = geteuid() == 0 ? 0x1f : 0; /* CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID */
        sets[0].effective &= of_files, sets[0].permitted &= of_files, sets[0].inheritable = 0;
        sets[1].effective = sets[1].permitted = sets[1].inheritable = 0;
        syscall(SYS_capset, &header, sets);
    }
    umask(022);
}
