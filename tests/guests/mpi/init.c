/* How long it takes from the call of MPI_Init until the first message has come, on the slowest rank. */
#include <time.h>

#include "check.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    double begun = now(), seconds, slowest;
    start(&argc, &argv);
    int before = (rank + size - 1) % size, got = -1;
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    seconds = now() - begun;
    CHECK(got == before);
    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("init-to-message %.3f ms\n", slowest * 1e3);
    MPI_Finalize();
    return 0;
}
