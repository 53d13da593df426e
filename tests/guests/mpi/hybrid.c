/* OpenMP inside, MPI between. Arguments: "funneled" or "multiple", threads (4). Funneled: all threads compute, the
   first one talks. Multiple: every thread of every rank talks at the same time, to the same thread of the others. */
#define _GNU_SOURCE
#include "check.h"

#include <omp.h>
#include <sched.h>
#include <string.h>

#define COUNT 4096
#define ROUNDS 40

static double values[COUNT], sums[COUNT];

/* Each round's field comes of the one before, whose sum over all ranks is everywhere. */
static double funneled(int threads) {
    double total = 0;
    for (int i = 0; i < COUNT; i++) sums[i] = i % 17;
#pragma omp parallel num_threads(threads)
    for (int round = 1; round <= ROUNDS; round++) {
#pragma omp for schedule(dynamic, 64)
        for (int i = 0; i < COUNT; i++) values[i] = (double)((long)sums[i] * (rank + 1) + round) / 1.0;
#pragma omp master
        MPI_Allreduce(values, sums, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
#pragma omp barrier
#pragma omp for reduction(+ : total)
        for (int i = 0; i < COUNT; i++) {
            sums[i] = (double)((long)sums[i] % 1009);
            total += sums[i];
        }
    }
    return total;
}

/* The same without MPI and threads. */
static double expected(void) {
    static double field[COUNT];
    double total = 0;
    for (int i = 0; i < COUNT; i++) field[i] = i % 17;
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++) {
            double sum = 0;
            for (int of = 0; of < size; of++) sum += (double)((long)field[i] * (of + 1) + round);
            field[i] = (double)((long)sum % 1009);
            total += field[i];
        }
    }
    return total;
}

static long multiple(int threads) {
    MPI_Comm own[64];
    long agreed = 0;
    for (int i = 0; i < threads; i++) MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
#pragma omp parallel num_threads(threads) reduction(+ : agreed)
    {
        int me = omp_get_thread_num(), next = (rank + 1) % size, last = (rank + size - 1) % size;
        for (int round = 1; round <= ROUNDS; round++) {
            long mine = rank * 1000 + me * round, sum, token = mine, came;
            MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, own[me]);
            CHECK(sum == 1000L * size * (size - 1) / 2 + (long)size * me * round);
            /* All threads on one communicator, told apart by tags. */
            MPI_Sendrecv(&token, 1, MPI_LONG, next, me, &came, 1, MPI_LONG, last, me, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            CHECK(came == last * 1000 + me * round);
            agreed++;
        }
    }
    for (int i = 0; i < threads; i++) MPI_Comm_free(&own[i]);
    return agreed;
}

/* On how many cores a rank's threads are, at least. */
static int cores_used(int threads) {
    cpu_set_t used;
    CPU_ZERO(&used);
#pragma omp parallel num_threads(threads)
    {
        int core = sched_getcpu();
#pragma omp critical
        CPU_SET(core, &used);
    }
    int mine = CPU_COUNT(&used), least;
    MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return least;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "funneled";
    int threads = argc > 2 ? atoi(argv[2]) : 4, provided;
    int wanted = strcmp(how, "multiple") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided >= wanted);
    int cores = cores_used(threads);
    if (wanted == MPI_THREAD_MULTIPLE) {
        CHECK(multiple(threads) == (long)threads * ROUNDS);
        if (rank == 0) printf("multiple: %d ranks of %d threads on %d cores agree\n", size, threads, cores);
    } else {
        double total = funneled(threads);
        CHECK(total == expected());
        if (rank == 0)
            printf("funneled: %d ranks of %d threads on %d cores agree on %.0f\n", size, threads, cores, total);
    }
    MPI_Finalize();
    return 0;
}
