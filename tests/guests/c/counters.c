/* Offers counters to the overlay of its job: `counters ROUNDS`, with 100 ms between rounds, or `counters ROUNDS full`.
 *
 * Each rank has `steps`, which is the round, and `rank`, which is its own; ranks with even numbers have `even`, which is 0.
 * With `full` it has as many as there may be: `n01` and so on, too, each 1. What is refused is tried before the first
 * round. At the end it prints `steps ROUNDS` and what it reads. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../../docs/include/coppice.h"

#define NAMES_MAX 16

/* Whether a write to the file fails so. */
static int is_refused(int file, const char *text, int wanted) {
    errno = 0;
    return write(file, text, strlen(text)) == -1 && errno == wanted;
}

int main(int count, char **arguments) {
    if (count < 2)
        return 2;
    int rounds = atoi(arguments[1]), is_full = count > 2 && strcmp(arguments[2], "full") == 0;
    int rank = atoi(getenv("COPPICE_RANK"));
    int file = open("/proc/coppice/counters", O_RDWR);
    if (file < 0)
        return 3;
    if (!is_refused(file, "Steps 1\n", EINVAL) || !is_refused(file, "steps -1\n", EINVAL))
        return 4;
    /* A line in pieces, and two at once. */
    if (write(file, "ra", 2) != 2 || write(file, "nk 9\nsteps 1\n", 13) != 13)
        return 5;
    if (coppice_counter("rank", (uint64_t)rank) || (rank % 2 == 0 && coppice_counter("even", 0)))
        return 6;
    int names = rank % 2 == 0 ? 3 : 2;
    for (char name[8]; is_full && names < NAMES_MAX; names++) {
        snprintf(name, sizeof name, "n%02d", names);
        if (coppice_counter(name, 1))
            return 7;
    }
    if (is_full && (!is_refused(file, "rank 7\none.more 1\n", ENOSPC) || coppice_counter("one.more", 1) == 0))
        return 8;
    for (int round = 0; round <= rounds; round++) {
        if (coppice_counter("steps", (uint64_t)round))
            return 9;
        struct timespec pause = {0, 100000000};
        nanosleep(&pause, NULL);
    }
    char text[1024];
    ssize_t length = pread(file, text, sizeof text, 0);
    if (length < 0)
        return 10;
    printf("steps %d\nread:\n%.*s", rounds, (int)length, text);
    return 0;
}
