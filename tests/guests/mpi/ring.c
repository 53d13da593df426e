/* A message goes round the ring of all ranks; each rank adds to it and leaves its mark.
   Arguments: rounds (10; 0 is for ever, and rank 0 says when the first is over), ints in the message (1000). */
#include "check.h"

int main(int argc, char **argv) {
    start(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 10, count = argc > 2 ? atoi(argv[2]) : 1000;
    int *message = malloc(count * sizeof *message);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int round = 0; rounds == 0 || round < rounds; round++) {
        int tag = round % 1000;
        if (rank == 0) {
            for (int i = 0; i < count; i++) message[i] = tag + i;
            MPI_Send(message, count, MPI_INT, next, tag, MPI_COMM_WORLD);
        }
        MPI_Status status;
        int got;
        MPI_Recv(message, count, MPI_INT, before, tag, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &got);
        CHECK(got == count && status.MPI_SOURCE == before);
        /* The ranks from 1 to the one before have each added their number. */
        int added = before * (before + 1) / 2;
        for (int i = 0; i < count; i++) CHECK(message[i] == tag + i + added);
        if (rank == 0 && rounds == 0 && round == 0) {
            puts("going round");
            fflush(stdout);
        }
        if (rank != 0) {
            for (int i = 0; i < count; i++) message[i] += rank;
            MPI_Send(message, count, MPI_INT, next, tag, MPI_COMM_WORLD);
        }
    }
    char name[MPI_MAX_PROCESSOR_NAME];
    int length;
    MPI_Get_processor_name(name, &length);
    printf("rank %d of %d on %s: %d rounds\n", rank, size, name, rounds);
    free(message);
    MPI_Finalize();
    return 0;
}
