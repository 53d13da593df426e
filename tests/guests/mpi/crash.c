/* One rank ends without a word to MPI while the others wait for it.
   Arguments: the rank (1); how: `signal` (default), `exit`, or `before`, which exits before MPI is initialised. */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

int main(int argc, char **argv) {
    int who = argc > 1 ? atoi(argv[1]) : 1;
    const char *how = argc > 2 ? argv[2] : "signal";
    const char *given = getenv("PMI_RANK");
    if (!strcmp(how, "before") && given && atoi(given) == who) _exit(4);
    start(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == who && !strcmp(how, "exit")) _exit(4);
    volatile int *nowhere = (volatile int *)(uintptr_t)(8 * who);
    if (rank == who) *nowhere = 1;
    int word = 0;
    MPI_Bcast(&word, 1, MPI_INT, who, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d was let go\n", rank);
    MPI_Finalize();
    return 0;
}
