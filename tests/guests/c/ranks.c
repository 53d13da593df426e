/* A rank beside others on its node: says who it is, and that its memory is its own. With "crash N" rank N touches a null
   pointer when all is said; with "spin N" all ranks but N compute for ever. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* At the same address in every rank: initialised, zeroed, and the one after the end of a page. */
static volatile int given = 7, zeroed;
static char pages[64 << 10];

int main(int argc, char **argv) {
    int rank = atoi(getenv("COPPICE_RANK")), named = argc > 2 ? atoi(argv[2]) : -1;
    const char *how = argc > 1 ? argv[1] : "";
    char *heap = malloc(200000);
    int whole = given == 7 && zeroed == 0 && heap;
    given = 100 + rank;
    zeroed = 200 + rank;
    memset(pages, rank + 1, sizeof pages);
    memset(heap, rank + 51, 200000);
    for (int turn = 0; turn < 100 && whole; turn++) {
        sched_yield();
        whole = given == 100 + rank && zeroed == 200 + rank;
        for (size_t i = 0; i < sizeof pages; i += 512) whole &= pages[i] == rank + 1 && heap[i] == rank + 51;
    }
    printf("rank %d of %s, process %d: %s\n", rank, getenv("COPPICE_SIZE"), getpid(), whole ? "whole" : "mixed");
    fflush(stdout);
    if (!strcmp(how, "crash") && rank == named) *(volatile int *)NULL = 1;
    if (!strcmp(how, "spin") && rank != named)
        for (;;) given = given;
    return whole ? 0 : 1;
}
