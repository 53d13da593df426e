/* Writes so many numbered lines with pauses between them, each in one piece, and exits with a status:
   lines TAG COUNT MICROSECONDS STATUS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 5) return 98;
    const char *rank = getenv("COPPICE_RANK");
    long pause = atol(argv[3]);
    struct timespec time = {.tv_sec = pause / 1000000, .tv_nsec = pause % 1000000 * 1000};
    for (long i = 0; i < atol(argv[2]); i++) {
        char line[200];
        int length = snprintf(line, sizeof line, "%s %s %ld\n", argv[1], rank ? rank : "?", i);
        if (write(1, line, length) != length) {
            perror("lines");
            return 97;
        }
        nanosleep(&time, NULL);
    }
    return atoi(argv[4]);
}
