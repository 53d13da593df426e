/* One rank gives up while the others wait for it. Arguments: the rank (1), the code (7). */
#include "check.h"

int main(int argc, char **argv) {
    start(&argc, &argv);
    int who = argc > 1 ? atoi(argv[1]) : 1, code = argc > 2 ? atoi(argv[2]) : 7;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == who) MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d was let go\n", rank);
    MPI_Finalize();
    return 0;
}
