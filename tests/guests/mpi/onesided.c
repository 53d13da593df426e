/* One-sided communication: put, get and accumulate between fences, and a counter under a lock that all ranks take. */
#include "check.h"

#define COUNT 5000
#define TURNS 20

static void fences(void) {
    int *memory, next = (rank + 1) % size;
    MPI_Win window;
    MPI_Win_allocate(COUNT * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    int *mine = malloc(COUNT * sizeof *mine), *theirs = malloc(COUNT * sizeof *theirs);
    for (int i = 0; i < COUNT; i++) memory[i] = -1, mine[i] = rank * COUNT + i;
    MPI_Win_fence(0, window);
    MPI_Put(mine, COUNT, MPI_INT, next, 0, COUNT, MPI_INT, window);
    MPI_Win_fence(0, window);
    int before = (rank + size - 1) % size;
    for (int i = 0; i < COUNT; i++) CHECK(memory[i] == before * COUNT + i);
    MPI_Win_fence(0, window);
    MPI_Get(theirs, COUNT, MPI_INT, next, 0, COUNT, MPI_INT, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT; i++) CHECK(theirs[i] == mine[i]);
    for (int i = 0; i < COUNT; i++) memory[i] = 0;
    MPI_Win_fence(0, window);
    for (int to = 0; to < size; to++) MPI_Accumulate(mine, COUNT, MPI_INT, to, 0, COUNT, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT; i++) CHECK(memory[i] == size * (size - 1) / 2 * COUNT + size * i);
    free(mine);
    free(theirs);
    MPI_Win_free(&window);
}

static void counter(void) {
    long *memory, one = 1, seen, last = -1;
    MPI_Win window;
    MPI_Win_allocate(rank == 0 ? sizeof(long) : 0, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    if (rank == 0) *memory = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Fetch_and_op(&one, &seen, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Win_unlock(0, window);
        CHECK(seen > last);
        last = seen;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        CHECK(*memory == (long)TURNS * size);
        MPI_Win_unlock(0, window);
    }
    MPI_Win_free(&window);
}

int main(int argc, char **argv) {
    start(&argc, &argv);
    fences();
    counter();
    if (rank == 0) printf("onesided: %d ranks agree\n", size);
    MPI_Finalize();
    return 0;
}
