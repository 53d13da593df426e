/* How long it takes from the call of MPI_Init until the first message has come, on the slowest rank, and how long rank 0
   has used a processor until it was past MPI_Init, since it was started. */
#include <time.h>

#include "check.h"

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    double begun = now(CLOCK_MONOTONIC), seconds, slowest;
    start(&argc, &argv);
    double used = now(CLOCK_PROCESS_CPUTIME_ID);
    int before = (rank + size - 1) % size, got = -1;
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    seconds = now(CLOCK_MONOTONIC) - begun;
    CHECK(got == before);
    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("init-to-message %.3f ms\nstart-to-init %.0f ns\n", slowest * 1e3, used * 1e9);
    MPI_Finalize();
    return 0;
}
