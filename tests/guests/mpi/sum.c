/* All ranks sum up their numbers, and nothing else: for more ranks than could all be connected with each other. */
#include "check.h"

int main(int argc, char **argv) {
    int sum = -1;
    start(&argc, &argv);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == size * (size - 1) / 2);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("sum: %d ranks agree\n", size);
    MPI_Finalize();
    return 0;
}
