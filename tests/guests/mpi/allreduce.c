/* Collective operations of many sizes, each result checked on every rank. Argument: repetitions (3). */
#include "check.h"

static void reduce(int count) {
    double *mine = malloc(count * sizeof *mine), *sum = malloc(count * sizeof *sum);
    for (int i = 0; i < count; i++) mine[i] = (rank + 1) * (double)(i % 1000);
    MPI_Allreduce(mine, sum, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double ranks = size * (size + 1) / 2;
    for (int i = 0; i < count; i++) CHECK(sum[i] == ranks * (i % 1000));
    MPI_Allreduce(mine, sum, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) CHECK(sum[i] == (double)size * (i % 1000));
    free(mine);
    free(sum);
}

static void exchange(int count) {
    int *out = malloc((size_t)count * size * sizeof *out), *in = malloc((size_t)count * size * sizeof *in);
    for (int to = 0; to < size; to++)
        for (int i = 0; i < count; i++) out[to * count + i] = rank * 1000003 + to * 1009 + i;
    MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++)
        for (int i = 0; i < count; i++) CHECK(in[from * count + i] == from * 1000003 + rank * 1009 + i);
    free(out);
    free(in);
}

int main(int argc, char **argv) {
    start(&argc, &argv);
    int repetitions = argc > 1 ? atoi(argv[1]) : 3;
    for (int n = 0; n < repetitions; n++) {
        for (int count = 1; count <= 1 << 17; count *= 8) reduce(count);
        for (int count = 1; count <= 1 << 12; count *= 8) exchange(count);
        int word = rank == n % size ? n * 7 : -1;
        MPI_Bcast(&word, 1, MPI_INT, n % size, MPI_COMM_WORLD);
        CHECK(word == n * 7);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0) printf("allreduce: %d ranks agree\n", size);
    MPI_Finalize();
    return 0;
}
