/* Lets bytes pass through it that its own memory keeps no copy of for long. Arguments: what to do, a file.
   read: reads the file. map: touches all pages of it. copy: writes it to FILE.copy. print: to standard output. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char buffer[100000];

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
