/* Writes to PAGES pages and stays until it is ended, or, as "copy", copies them once and says how long that
   took, ns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

int main(int argc, char **argv) {
    long pages = argc > 1 ? atol(argv[1]) : 1;
    char *memory = malloc(pages * PAGE);
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
