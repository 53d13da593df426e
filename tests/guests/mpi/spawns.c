/* Asks for more ranks, which nobody starts here: the job ends, as it does with any error that a program leaves to MPI. */
#include "check.h"

int main(int argc, char **argv) {
    start(&argc, &argv);
    MPI_Comm more;
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &more, MPI_ERRCODES_IGNORE);
    if (rank == 0) printf("spawns: there are more than %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
