/* MPI-IO with file locks: a file pointer that all ranks share, and reads and writes that are seen whole or not at all.
   Argument: the file. */
#include <stdint.h>
#include <string.h>

#include "check.h"

#define TIMES 10      /* records a rank writes by the shared pointer, and as many in order */
#define WORDS 64      /* of a record */
#define LARGE 300000  /* bytes that are written at once in atomic mode */
#define ROUNDS 6

struct record {
    uint32_t rank, number, words[WORDS - 2];
};

static struct record record_of(uint32_t of, uint32_t number) {
    struct record record = {of, number, {0}};
    for (uint32_t i = 0; i < WORDS - 2; i++) record.words[i] = of * 1000003u + number * 101u + i;
    return record;
}

static void check_whole(const struct record *found) {
    CHECK(found->rank < (uint32_t)size && found->number < 2 * TIMES);
    struct record expected = record_of(found->rank, found->number);
    CHECK(!memcmp(found, &expected, sizeof expected));
}

/* Every rank appends where the last one ended, whoever that was; then all do so in the order of ranks. */
static void writes(MPI_File file) {
    MPI_Offset bytes;
    for (uint32_t number = 0; number < TIMES; number++) {
        struct record record = record_of(rank, number);
        MPI_File_write_shared(file, &record, sizeof record, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (uint32_t number = TIMES; number < 2 * TIMES; number++) {
        struct record record = record_of(rank, number);
        MPI_File_write_ordered(file, &record, sizeof record, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    MPI_File_get_position_shared(file, &bytes);
    CHECK(bytes == (MPI_Offset)sizeof(struct record) * size * 2 * TIMES);
}

/* Each record is read by one rank, and none twice. */
static void reads(MPI_File file) {
    int *seen = calloc(2 * TIMES * size, sizeof *seen), *all = calloc(2 * TIMES * size, sizeof *all);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    for (;;) {
        struct record record;
        MPI_Status status;
        int count;
        MPI_File_read_shared(file, &record, sizeof record, MPI_BYTE, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        if (count == 0) break;
        CHECK(count == sizeof record);
        check_whole(&record);
        seen[record.rank * 2 * TIMES + record.number]++;
    }
    MPI_Allreduce(seen, all, 2 * TIMES * size, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < 2 * TIMES * size; i++) CHECK(all[i] == 1);
    /* Those that were written in order lie so. */
    for (int i = 0; i < TIMES * size; i++) {
        struct record record;
        MPI_File_read_at(file, (MPI_Offset)(TIMES * size + i) * sizeof record, &record, sizeof record, MPI_BYTE,
                         MPI_STATUS_IGNORE);
        check_whole(&record);
        CHECK(record.rank == (uint32_t)(i % size) && record.number == (uint32_t)(TIMES + i / size));
    }
    free(seen), free(all);
}

/* All write the same bytes, each its own number; whoever reads finds one of them all over. */
static void atomic(MPI_File file) {
    int is_atomic;
    unsigned char *buffer = malloc(LARGE);
    MPI_File_set_atomicity(file, 1);
    MPI_File_get_atomicity(file, &is_atomic);
    CHECK(is_atomic);
    MPI_File_set_size(file, 0);
    memset(buffer, 1 + rank, LARGE);
    MPI_File_write_at_all(file, 0, buffer, LARGE, MPI_BYTE, MPI_STATUS_IGNORE);
    for (int round = 0; round < ROUNDS; round++) {
        if ((rank + round) % 2) {
            memset(buffer, 1 + rank, LARGE);
            MPI_File_write_at(file, 0, buffer, LARGE, MPI_BYTE, MPI_STATUS_IGNORE);
        } else {
            MPI_File_read_at(file, 0, buffer, LARGE, MPI_BYTE, MPI_STATUS_IGNORE);
            for (int i = 0; i < LARGE; i++) CHECK(buffer[i] == buffer[0] && buffer[0] >= 1 && buffer[0] <= size);
        }
    }
    free(buffer);
}

int main(int argc, char **argv) {
    start(&argc, &argv);
    CHECK(argc == 2);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    MPI_File file;
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_set_size(file, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    writes(file);
    MPI_Barrier(MPI_COMM_WORLD);
    reads(file);
    MPI_Barrier(MPI_COMM_WORLD);
    atomic(file);
    MPI_File_close(&file);
    if (rank == 0) puts("io_shared: all right");
    MPI_Finalize();
    return 0;
}
