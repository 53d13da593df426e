/* Each rank has some MiB, of which every word says in which round it was written, by whom and where. In a round a rank
   looks whether all is as the round before has left it and writes it anew; meanwhile ranks tell each other in which
   round they are. What was put together from two moments is seen by that, and ends the job.
   Arguments: MiB (16), rounds (10; 0 is for ever), parts of a round with a message each (8). */
#include <stdint.h>
#include <string.h>

#include "check.h"

#define PAGE_WORDS 512
#define PAGES_OF_MIB 256

static uint64_t word(uint64_t round, uint64_t at) {
    uint64_t mixed = (round * 0x9e3779b97f4a7c15ull) ^ (at * 0xbf58476d1ce4e5b9ull) ^ ((uint64_t)rank << 56);
    return mixed ^ mixed >> 29;
}

/* By this what was in memory is known again. */
static void mark(uint64_t *page) { memcpy(page, "-secret-", 8); }

int main(int argc, char **argv) {
    start(&argc, &argv);
    long pages = (argc > 1 ? atol(argv[1]) : 16) * PAGES_OF_MIB, rounds = argc > 2 ? atol(argv[2]) : 10;
    long parts = argc > 3 ? atol(argv[3]) : 8;
    uint64_t *words = aligned_alloc(1 << 20, pages * PAGE_WORDS * sizeof *words);
    CHECK(words && pages > 0 && parts > 0);
    for (long at = 0; at < pages * PAGE_WORDS; at++) words[at] = word(0, at);
    for (long page = 0; page < pages; page++) mark(words + page * PAGE_WORDS);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (long round = 1; rounds == 0 || round <= rounds; round++) {
        for (long part = 0; part < parts; part++) {
            for (long page = pages * part / parts; page < pages * (part + 1) / parts; page++) {
                uint64_t *here = words + page * PAGE_WORDS;
                CHECK(!memcmp(here, "-secret-", 8));
                for (long at = 1; at < PAGE_WORDS; at++) {
                    CHECK(here[at] == word(round - 1, page * PAGE_WORDS + at));
                    here[at] = word(round, page * PAGE_WORDS + at);
                }
            }
            long mine[2] = {round, part}, theirs[2];
            MPI_Sendrecv(mine, 2, MPI_LONG, next, 1, theirs, 2, MPI_LONG, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(theirs[0] == round && theirs[1] == part);
        }
        long least, most;
        MPI_Allreduce(&round, &least, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
        MPI_Allreduce(&round, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
        CHECK(least == round && most == round);
        if (rank == 0) {
            printf("round %ld: all agree\n", round);
            fflush(stdout);
        }
    }
    if (rank == 0) printf("agrees: %d ranks agree\n", size);
    free(words);
    MPI_Finalize();
    return 0;
}
