/* Writes to PAGES pages and stays until it is ended, or, as "copy", copies them once and says how long that
   took, ns. As "shared", others might show these pages, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

int main(int argc, char **argv) {
    long pages = argc > 1 ? atol(argv[1]) : 1;
    int shared = argc > 2 && strcmp(argv[2], "shared") == 0;
    char *memory = shared ? mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
                          : malloc(pages * PAGE);
    if (memory == MAP_FAILED || memory == NULL) return 1;
    for (long page = 0; page < pages; page++) memset(memory + page * PAGE, (int)(page % 251) + 1, PAGE);
    if (argc > 2 && strcmp(argv[2], "copy") == 0) {
        char *copy = malloc(pages * PAGE);
        memset(copy, 1, pages * PAGE);
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        memcpy(copy, memory, pages * PAGE);
        clock_gettime(CLOCK_MONOTONIC, &after);
        printf("%ld\n", (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec);
        return copy[pages] == 0;
    }
    puts("ready");
    fflush(stdout);
    for (;;) pause();
}
