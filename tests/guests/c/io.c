/* Measures file calls in wall time: `io FILE MEBIBYTES [WHAT]` prints `NAME VALUE UNIT` lines; WHAT is `all` (in large and
   small calls, many small files), `plain` (large calls and reads of a byte) or `pread` (so many reads of 4 KiB of what
   was read before, for counting). `cargo xtask bench io`. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SMALL_FILES 1000
#define SMALL_BYTES 4096

static char *buffer;
static const size_t chunk = 1 << 20;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void rate(const char *name, size_t bytes, double start) {
    printf("%s %.1f MiB/s\n", name, (double)bytes / 1048576 / (now() - start));
}

static int opened(const char *path, int flags) {
    int fd = open(path, flags, 0644);
    if (fd < 0) fail("open");
    return fd;
}

/* All of a file, in calls of so many bytes; the file is opened and closed for it. */
static void read_all(const char *name, const char *path, size_t total, size_t piece) {
    double start = now();
    int fd = opened(path, O_RDONLY);
    for (size_t done = 0; done < total; done += piece)
        if (read(fd, buffer, piece) != (ssize_t)piece) fail("read");
    close(fd);
    rate(name, total, start);
}

static void write_all(const char *name, const char *path, size_t total, size_t piece) {
    double start = now();
    int fd = opened(path, O_WRONLY | O_CREAT | O_TRUNC);
    for (size_t done = 0; done < total; done += piece)
        if (write(fd, buffer, piece) != (ssize_t)piece) fail("write");
    if (close(fd)) fail("close");
    rate(name, total, start);
}

/* In calls of stdio, each of 4 KiB. */
static void stdio_write(const char *name, const char *path, size_t total) {
    double start = now();
    FILE *file = fopen(path, "w");
    if (!file) fail("fopen");
    for (size_t done = 0; done < total; done += 4096)
        if (fwrite(buffer, 4096, 1, file) != 1) fail("fwrite");
    if (fclose(file)) fail("fclose");
    rate(name, total, start);
}

static void stdio_read(const char *path, size_t total) {
    double start = now();
    FILE *file = fopen(path, "r");
    if (!file) fail("fopen");
    for (size_t done = 0; done < total; done += 4096)
        if (fread(buffer, 4096, 1, file) != 1) fail("fread");
    fclose(file);
    rate("stdio-read", total, start);
}

static void one_byte(const char *path) {
    int calls = 2000, fd = opened(path, O_RDONLY);
    double start = now();
    for (int i = 0; i < calls; i++)
        if (pread(fd, buffer, 1, i) != 1) fail("pread");
    printf("pread-1-byte %.1f us\n", (now() - start) / calls * 1e6);
    close(fd);
}

static void each(const char *name, double start) {
    printf("small-%s %.1f us\n", name, (now() - start) / SMALL_FILES * 1e6);
}

static void small_files(const char *directory) {
    char path[256];
    struct stat status;
    if (mkdir(directory, 0755)) fail("mkdir");
    double start = now();
    for (int i = 0; i < SMALL_FILES; i++) {
        snprintf(path, sizeof path, "%s/%d", directory, i);
        int fd = opened(path, O_WRONLY | O_CREAT | O_EXCL);
        if (write(fd, buffer, SMALL_BYTES) != SMALL_BYTES) fail("write");
        if (close(fd)) fail("close");
    }
    each("create", start);
    start = now();
    for (int i = 0; i < SMALL_FILES; i++) {
        snprintf(path, sizeof path, "%s/%d", directory, i);
        if (stat(path, &status) || status.st_size != SMALL_BYTES) fail("stat");
    }
    each("stat", start);
    start = now();
    for (int i = 0; i < SMALL_FILES; i++) {
        snprintf(path, sizeof path, "%s/%d", directory, i);
        int fd = opened(path, O_RDONLY);
        if (read(fd, buffer, SMALL_BYTES) != SMALL_BYTES) fail("read");
        close(fd);
    }
    each("read", start);
    start = now();
    int listed = 0;
    DIR *entries = opendir(directory);
    for (struct dirent *entry; (entry = readdir(entries));)
        if (entry->d_name[0] != '.') {
            if (fstatat(dirfd(entries), entry->d_name, &status, 0)) fail("fstatat");
            listed++;
        }
    closedir(entries);
    if (listed != SMALL_FILES) fail("readdir");
    each("list", start);
    start = now();
    for (int i = 0; i < SMALL_FILES; i++) {
        snprintf(path, sizeof path, "%s/%d", directory, i);
        if (unlink(path)) fail("unlink");
    }
    each("remove", start);
    if (rmdir(directory)) fail("rmdir");
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *path = argv[1], *what = argc > 3 ? argv[3] : "plain";
    size_t total = (size_t)atol(argv[2]) << 20;
    buffer = malloc(chunk);
    memset(buffer, 'c', chunk);
    if (!strcmp(what, "pread")) {
        /* Of what is here already, in a file of 64 KiB: first none, then many, so that the difference counts. */
        int fd = opened(path, O_RDWR | O_CREAT | O_TRUNC), calls = atoi(argv[2]);
        if (write(fd, buffer, 65536) != 65536 || pread(fd, buffer, 65536, 0) != 65536) fail("write");
        double start = now();
        for (int i = 0; i < calls; i++)
            if (pread(fd, buffer, 4096, i % 16 * 4096) != 4096) fail("pread");
        printf("pread-4-KiB %.1f ns\n", (now() - start) / calls * 1e9);
        close(fd);
        unlink(path);
        return 0;
    }
    write_all("sequential-write", path, total, chunk);
    read_all("sequential-read", path, total, chunk);
    if (!strcmp(what, "all")) {
        size_t second = 16 << 20;
        /* What is kept of it is in memory that nobody has touched before, then in memory that somebody has. */
        stdio_write("stdio-write-first", path, total);
        unlink(path);
        stdio_write("stdio-write", path, total);
        /* Long writes leave nothing on the node. */
        unlink(path);
        write_all("long-write", path, total, chunk);
        stdio_read(path, total);
        write_all("written", path, second, chunk);
        read_all("first-read", path, second, chunk);
        read_all("second-read", path, second, chunk);
        /* Moving as much as a read does. */
        char *there = malloc(second);
        memset(there, 1, second);
        double start = now();
        for (size_t done = 0; done < second; done += chunk) memcpy(buffer, there + done, chunk);
        rate("memory", second, start);
        free(there);
        small_files("small-files");
    }
    one_byte(path);
    unlink(path);
    return 0;
}
