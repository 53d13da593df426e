/* Has some MiB that it fills once, and then changes a page in each round, one of a few; what it says after a round
 * depends on all rounds before and on pages that were written once. Arguments: MiB, rounds, ms between rounds, and how
 * many pages are changed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE_WORDS 512
#define PAGES_OF_MIB 256

static uint64_t next(uint64_t state) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^ state << 17;
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    long pages = atol(argv[1]) * PAGES_OF_MIB, rounds = atol(argv[2]), ms = atol(argv[3]), few = atol(argv[4]);
    uint64_t *words = aligned_alloc(1 << 20, pages * PAGE_WORDS * sizeof *words);
    if (!words || pages < 1 || few < 1 || few > pages) return 3;
    /* By this what was in memory is known again. */
    uint64_t state = 88172645463325252ull, sum = 0;
    for (long word = 0; word < pages * PAGE_WORDS; word += 2) {
        words[word] = state = next(state);
        memcpy(words + word + 1, "-secret-", 8);
    }
    for (long round = 0; round < rounds; round++) {
        uint64_t *changed = words + round % few * PAGE_WORDS;
        for (int word = 0; word < PAGE_WORDS; word += 2) changed[word] ^= state = next(state);
        uint64_t *read = words + round * 7919 % pages * PAGE_WORDS;
        for (int word = 0; word < PAGE_WORDS; word++) sum = sum * 31 + read[word] + changed[word];
        printf("round %ld: %016llx\n", round, (unsigned long long)sum);
        fflush(stdout);
        struct timespec time = {ms / 1000, ms % 1000 * 1000000};
        nanosleep(&time, NULL);
    }
    puts("done");
    return 0;
}
