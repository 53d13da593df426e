/* MPI-IO: all ranks write one file, interleaved and side by side, and read what others wrote.
   Argument: the file. Word i of it is i * 2654435761 in the end. */
#include <stdint.h>

#include "check.h"

#define BLOCK 1024 /* words a rank writes in a row */
#define BLOCKS 16  /* of each rank */

static uint32_t word(long i) { return (uint32_t)(i * 2654435761u); }

/* Writes the first half, interleaved through a view of the file: block b of rank r is block b * size + r. */
static void together(MPI_File file, uint32_t *buffer) {
    MPI_Datatype view;
    MPI_Type_vector(BLOCKS, BLOCK, BLOCK * size, MPI_UINT32_T, &view);
    MPI_Type_commit(&view);
    for (long b = 0; b < BLOCKS; b++)
        for (long i = 0; i < BLOCK; i++) buffer[b * BLOCK + i] = word((b * size + rank) * BLOCK + i);
    MPI_File_set_view(file, (MPI_Offset)rank * BLOCK * 4, MPI_UINT32_T, view, "native", MPI_INFO_NULL);
    MPI_Status status;
    int count;
    MPI_File_write_all(file, buffer, BLOCK * BLOCKS, MPI_UINT32_T, &status);
    MPI_Get_count(&status, MPI_UINT32_T, &count);
    CHECK(count == BLOCK * BLOCKS);
    MPI_File_set_view(file, 0, MPI_UINT32_T, MPI_UINT32_T, "native", MPI_INFO_NULL);
    MPI_Type_free(&view);
}

/* Writes the second half, each rank its own piece without the others. */
static void alone(MPI_File file, uint32_t *buffer) {
    long begin = (long)BLOCK * BLOCKS * (size + rank);
    for (long i = 0; i < BLOCK * BLOCKS; i++) buffer[i] = word(begin + i);
    MPI_Request request;
    MPI_File_write_at(file, begin, buffer, BLOCK * BLOCKS / 2, MPI_UINT32_T, MPI_STATUS_IGNORE);
    MPI_File_iwrite_at(file, begin + BLOCK * BLOCKS / 2, buffer + BLOCK * BLOCKS / 2, BLOCK * BLOCKS / 2, MPI_UINT32_T,
                       &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    start(&argc, &argv);
    CHECK(argc == 2);
    /* By default an error of a file is returned, not fatal. */
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    uint32_t *buffer = malloc(BLOCK * BLOCKS * sizeof *buffer);
    MPI_File file;
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_set_size(file, 0);
    together(file, buffer);
    alone(file, buffer);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    MPI_Offset bytes;
    MPI_File_get_size(file, &bytes);
    CHECK(bytes == (MPI_Offset)BLOCK * BLOCKS * size * 2 * 4);
    /* All of it, in another order on each rank. */
    for (int n = 0; n < 2 * size; n++) {
        long begin = (long)BLOCK * BLOCKS * ((n + rank + 1) % (2 * size));
        MPI_File_read_at(file, begin, buffer, BLOCK * BLOCKS, MPI_UINT32_T, MPI_STATUS_IGNORE);
        for (long i = 0; i < BLOCK * BLOCKS; i++) CHECK(buffer[i] == word(begin + i));
    }
    MPI_File_close(&file);
    if (rank == 0) printf("io: %lld bytes right\n", (long long)bytes);
    free(buffer);
    MPI_Finalize();
    return 0;
}
