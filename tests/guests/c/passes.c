/* Lets bytes pass through it that its own memory keeps no copy of for long. Arguments: what to do, a file.
   read: reads the file. map: touches all pages of it. copy: writes it to FILE.copy. print: to standard output.
   loop: sends it to itself. ranks: rank 0 sends it to rank 1 on another node, which takes half of it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char buffer[100000];

static int listening(int backlog) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(5000)};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    return bind(s, (void *)&here, sizeof here) || listen(s, backlog) ? -1 : s;
}

static int calling(unsigned address) {
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(5000), .sin_addr = {htonl(address)}};
    for (;;) {
        int s = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(s, (void *)&there, sizeof there) == 0) return s;
        if (close(s) != 0 || errno != ECONNREFUSED || usleep(20000) != 0) return -1;
    }
}

/* Sends the file to itself, a piece at a time, and leaves the last one lying. */
static int loop(int fd) {
    int listener = listening(1), one = calling(INADDR_LOOPBACK), other = accept(listener, 0, 0);
    ssize_t got, last = 0;
    while ((got = read(fd, buffer, 2000)) > 0) {
        if (last > 0 && recv(other, buffer + 50000, (size_t)last, MSG_WAITALL) != last) return 95;
        if (write(one, buffer, (size_t)got) != got) return 96;
        last = got;
    }
    return 0;
}

static int ranks(int fd, long bytes) {
    signal(SIGPIPE, SIG_IGN);
    ssize_t got;
    if (atoi(getenv("COPPICE_RANK")) == 0) {
        int s = accept(listening(1), 0, 0);
        if (s < 0) return 97;
        while ((got = read(fd, buffer, sizeof buffer)) > 0)
            if (write(s, buffer, (size_t)got) != got) break;
        return 0;
    }
    int s = calling(0x0a800001);
    for (long taken = 0; taken < bytes / 2; taken += got)
        if ((got = read(s, buffer, sizeof buffer)) <= 0) return 98;
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return 90;
    const char *how = argv[1];
    int fd = open(argv[2], O_RDONLY), out = 1;
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) return 91;
    if (strcmp(how, "map") == 0) {
        const volatile char *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) return 92;
        int sum = 0;
        for (long i = 0; i < status.st_size; i += 4096) sum += bytes[i];
        return sum == 12345678;
    }
    if (strcmp(how, "loop") == 0) return loop(fd);
    if (strcmp(how, "ranks") == 0) return ranks(fd, status.st_size);
    if (strcmp(how, "copy") == 0) {
        char name[256];
        snprintf(name, sizeof name, "%s.copy", argv[2]);
        out = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    }
    ssize_t got;
    while ((got = read(fd, buffer, sizeof buffer)) > 0)
        if (strcmp(how, "read") != 0 && write(out, buffer, (size_t)got) != got) return 93;
    return got < 0 ? 94 : 0;
}
