/* What the MPI programs here share: a check that names itself and ends the whole job. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) do { if (!(condition)) { \
    fprintf(stderr, "rank %d: %s:%d: not true: %s\n", rank, __FILE__, __LINE__, #condition); \
    MPI_Abort(MPI_COMM_WORLD, 3); } } while (0)

/* Which rank of how many this is. */
static int rank, size;

static inline void start(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}
