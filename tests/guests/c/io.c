/* Measures file calls in wall time: `io FILE MEBIBYTES` prints `NAME VALUE UNIT` lines. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    size_t total = (size_t)atol(argv[2]) << 20, chunk = 1 << 20;
    char *buffer = malloc(chunk);
    memset(buffer, 'c', chunk);
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) return 1;
    double start = now();
    for (size_t done = 0; done < total; done += chunk)
        if (write(fd, buffer, chunk) != (ssize_t)chunk) return 1;
    printf("sequential-write %.1f MiB/s\n", (double)(total >> 20) / (now() - start));
    lseek(fd, 0, SEEK_SET);
    start = now();
    for (size_t done = 0; done < total; done += chunk)
        if (read(fd, buffer, chunk) != (ssize_t)chunk) return 1;
    printf("sequential-read %.1f MiB/s\n", (double)(total >> 20) / (now() - start));
    int calls = 2000;
    start = now();
    for (int i = 0; i < calls; i++)
        if (pread(fd, buffer, 1, i) != 1) return 1;
    printf("pread-1-byte %.1f us\n", (now() - start) / calls * 1e6);
    close(fd);
    unlink(argv[1]);
    return 0;
}
