/* Two ranks send a message to and fro. Arguments: round trips of one byte (1000), of a large message (20), its bytes (1 MiB).
   Prints microseconds of half a round trip and MiB/s one way; what arrives is checked. */
#include <string.h>

#include "check.h"

static char *buffer;

/* Sends and receives that often and returns the seconds it took. */
static double play(int trips, int bytes) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int n = 0; n < trips; n++) {
        if (rank == 0) {
            buffer[0] = buffer[bytes - 1] = (char)n;
            MPI_Send(buffer, bytes, MPI_CHAR, 1, n, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_CHAR, 1, n, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(buffer[0] == (char)(n + 1) && (bytes == 1 || buffer[bytes - 1] == (char)n));
        } else if (rank == 1) {
            MPI_Recv(buffer, bytes, MPI_CHAR, 0, n, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(buffer[0] == (char)n);
            buffer[0]++;
            MPI_Send(buffer, bytes, MPI_CHAR, 0, n, MPI_COMM_WORLD);
        }
    }
    return MPI_Wtime() - begun;
}

int main(int argc, char **argv) {
    start(&argc, &argv);
    int small = argc > 1 ? atoi(argv[1]) : 1000, large = argc > 2 ? atoi(argv[2]) : 20;
    int bytes = argc > 3 ? atoi(argv[3]) : 1 << 20;
    buffer = calloc(1, bytes);
    CHECK(size >= 2 && buffer && bytes > 0);
    play(small / 10 + 1, 1);
    double half = play(small, 1) / small / 2;
    for (int i = 0; i < bytes; i++) buffer[i] = (char)(i * 7);
    play(2, bytes);
    double seconds = play(large, bytes);
    for (int i = 1; rank < 2 && i < bytes - 1; i++) CHECK(rank == 1 || buffer[i] == (char)(i * 7));
    if (rank == 0) {
        printf("mpi-half-round-trip %.2f us\n", half * 1e6);
        printf("mpi-bandwidth %.2f MiB/s\n", 2.0 * large * bytes / seconds / (1 << 20));
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
