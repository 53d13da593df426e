/* Writes to a file that it has mapped shared, and dies: `maps_and_dies FILE HOW`, by `abort`, by touching what is behind
   the file's end (`beyond`) or by leaving (`exit`). The bytes are those of tests/tests/cluster/leases.rs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int file = open(argv[1], O_RDWR);
    struct stat status;
    if (file < 0 || fstat(file, &status)) return perror(argv[1]), 1;
    size_t length = (size_t)status.st_size, pages = (length + 4095) / 4096;
    unsigned char *memory = mmap(0, (pages + 1) * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) return perror("mmap"), 1;
    close(file);
    for (size_t at = 0; at < length; at += 1000) memory[at] = (unsigned char)(memory[at] + at / 1000 + 1);
    if (!strcmp(argv[2], "abort")) abort();
    if (!strcmp(argv[2], "beyond")) memory[pages * 4096] = 1;
    return 0;
}
