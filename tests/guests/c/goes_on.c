/* Computes in memory that it dirties all over, says so each round, and writes that to a file: what is said after a
 * round depends on all rounds before. With a third argument, a number, it waits for so many ms between rounds. Its
 * clock never goes back, nor on by more than a round takes. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORDS (1 << 18)

static uint64_t words[WORDS];

/* Longest a round may take, s: more than any machine needs. */
#define ROUND_SECONDS_MAX 120

static uint64_t next(uint64_t state) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^ state << 17;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    long rounds = atol(argv[1]);
    int file = open(argv[2], O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (file < 0) return 3;
    uint64_t state = 88172645463325252ull, sum = 0;
    /* Something on the heap, and something that is read only after it was written. */
    uint64_t *heap = calloc(WORDS / 8, sizeof *heap);
    struct timespec before, now;
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (long round = 0; round < rounds; round++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        long ns = (now.tv_sec - before.tv_sec) * 1000000000 + now.tv_nsec - before.tv_nsec;
        if (ns < 0 || now.tv_sec - before.tv_sec > ROUND_SECONDS_MAX) return 5;
        before = now;
        for (int i = 0; i < WORDS / 16; i++) {
            state = next(state);
            words[state % WORDS] += state;
            heap[state / WORDS % (WORDS / 8)] ^= words[i * 16];
        }
        for (int i = 0; i < WORDS; i += 8) sum = sum * 31 + words[i];
        sum ^= heap[round % (WORDS / 8)];
        char line[64];
        int length = snprintf(line, sizeof line, "round %ld: %016llx\n", round, (unsigned long long)sum);
        if (write(file, line, length) != length || write(1, line, length) != length) return 4;
        if (argc > 3) {
            long ms = atol(argv[3]);
            struct timespec time = {ms / 1000, ms % 1000 * 1000000};
            nanosleep(&time, NULL);
        }
    }
    puts("done");
    return 0;
}
