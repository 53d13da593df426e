/* The 2-D heat equation: a square plate, hot on one side and with a hot disc in it, explicit steps in time.
   The plate is cut into tiles, one per rank; before each step ranks exchange the rims of their tiles (the halo).
   Rank 0 then computes the whole plate by itself, compares bit by bit, and draws the parallel result as a picture.
   Arguments: points on a side (128), steps (200), the picture, a PPM (heat.ppm). */
#include <string.h>

#include "check.h"

static int points, steps;

/* Temperature at the start; the edge of the plate keeps it for ever. */
static double initial(int y, int x) {
    if (x == 0) return 100;
    double dy = y - points * 0.4, dx = x - points * 0.6, radius = points * 0.15;
    return dy * dy + dx * dx < radius * radius ? 80 : 0;
}

static int is_edge(int y, int x) { return y == 0 || x == 0 || y == points - 1 || x == points - 1; }

/* One step of a tile of rows x columns points whose first is (top, left) of the plate; both arrays have a rim of one. */
static void step(const double *from, double *to, int top, int left, int rows, int columns) {
    int width = columns + 2;
    for (int y = 1; y <= rows; y++)
        for (int x = 1; x <= columns; x++) {
            const double *p = from + y * width + x;
            to[y * width + x] =
                is_edge(top + y - 1, left + x - 1) ? *p : *p + 0.2 * (p[-width] + p[width] + p[-1] + p[1] - 4 * *p);
        }
}

static double *tile_at_start(int top, int left, int rows, int columns) {
    double *tile = calloc((size_t)(rows + 2) * (columns + 2), sizeof *tile);
    for (int y = 0; tile && y < rows; y++)
        for (int x = 0; x < columns; x++) tile[(y + 1) * (columns + 2) + x + 1] = initial(top + y, left + x);
    return tile;
}

/* All steps of a tile; with a grid of ranks its halo is exchanged before each. Returns the result. */
static double *evolve(int top, int left, int rows, int columns, MPI_Comm grid) {
    int width = columns + 2;
    double *now = tile_at_start(top, left, rows, columns), *next = tile_at_start(top, left, rows, columns);
    CHECK(now && next);
    MPI_Datatype column;
    MPI_Type_vector(rows, 1, width, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    for (int n = 0; n < steps; n++) {
        if (grid != MPI_COMM_NULL) {
            int above, below, before, after;
            MPI_Cart_shift(grid, 0, 1, &above, &below);
            MPI_Cart_shift(grid, 1, 1, &before, &after);
            MPI_Request requests[8];
            MPI_Irecv(now + 1, columns, MPI_DOUBLE, above, 0, grid, &requests[0]);
            MPI_Irecv(now + (rows + 1) * width + 1, columns, MPI_DOUBLE, below, 1, grid, &requests[1]);
            MPI_Irecv(now + width, 1, column, before, 2, grid, &requests[2]);
            MPI_Irecv(now + width + columns + 1, 1, column, after, 3, grid, &requests[3]);
            MPI_Isend(now + rows * width + 1, columns, MPI_DOUBLE, below, 0, grid, &requests[4]);
            MPI_Isend(now + width + 1, columns, MPI_DOUBLE, above, 1, grid, &requests[5]);
            MPI_Isend(now + width + columns, 1, column, after, 2, grid, &requests[6]);
            MPI_Isend(now + width + 1, 1, column, before, 3, grid, &requests[7]);
            MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
        }
        step(now, next, top, left, rows, columns);
        double *old = now;
        now = next;
        next = old;
    }
    MPI_Type_free(&column);
    free(next);
    return now;
}

/* First point of part i of n. */
static int begin(int i, int n) { return (int)((long)points * i / n); }

/* Puts the tiles of all ranks together on rank 0. */
static double *gather(const double *tile, const int dims[2], MPI_Comm grid) {
    double *plate = rank == 0 ? malloc(sizeof *plate * points * points) : NULL;
    for (int from = 0; from < size; from++) {
        int at[2];
        MPI_Cart_coords(grid, from, 2, at);
        int top = begin(at[0], dims[0]), left = begin(at[1], dims[1]);
        int rows = begin(at[0] + 1, dims[0]) - top, columns = begin(at[1] + 1, dims[1]) - left;
        MPI_Datatype inner, place;
        MPI_Type_vector(rows, columns, columns + 2, MPI_DOUBLE, &inner);
        MPI_Type_vector(rows, columns, points, MPI_DOUBLE, &place);
        MPI_Type_commit(&inner);
        MPI_Type_commit(&place);
        MPI_Request sent = MPI_REQUEST_NULL;
        if (rank == from) MPI_Isend(tile + columns + 3, 1, inner, 0, 9, grid, &sent);
        if (rank == 0)
            MPI_Recv(plate + (size_t)top * points + left, 1, place, from, 9, grid, MPI_STATUS_IGNORE);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
        MPI_Type_free(&inner);
        MPI_Type_free(&place);
    }
    return plate;
}

/* Black over red and yellow to white. */
static int draw(const double *plate, const char *name) {
    FILE *file = fopen(name, "wb");
    if (!file) return 0;
    fprintf(file, "P6\n%d %d\n255\n", points, points);
    for (int i = 0; i < points * points; i++) {
        double heat = plate[i] * 7.65; /* 0 to 765: three colours one after the other */
        for (int colour = 0; colour < 3; colour++) {
            double shade = heat - 255 * colour;
            fputc(shade < 0 ? 0 : shade > 255 ? 255 : (int)shade, file);
        }
    }
    return !fclose(file);
}

int main(int argc, char **argv) {
    start(&argc, &argv);
    points = argc > 1 ? atoi(argv[1]) : 128;
    steps = argc > 2 ? atoi(argv[2]) : 200;
    const char *picture = argc > 3 ? argv[3] : "heat.ppm";
    int dims[2] = {0, 0}, periods[2] = {0, 0}, at[2];
    MPI_Comm grid;
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Cart_coords(grid, rank, 2, at);
    CHECK(points >= dims[0] && points >= dims[1]);
    int top = begin(at[0], dims[0]), left = begin(at[1], dims[1]);
    double begun = MPI_Wtime();
    double *tile =
        evolve(top, left, begin(at[0] + 1, dims[0]) - top, begin(at[1] + 1, dims[1]) - left, grid);
    double *plate = gather(tile, dims, grid);
    if (rank == 0) {
        double seconds = MPI_Wtime() - begun;
        double *serial = evolve(0, 0, points, points, MPI_COMM_NULL);
        for (int y = 0; y < points; y++)
            CHECK(!memcmp(plate + (size_t)y * points, serial + (y + 1) * (points + 2) + 1, points * sizeof *plate));
        CHECK(draw(plate, picture));
        printf("halo: %d x %d points in %d x %d tiles, %d steps: as computed serially\n", points, points, dims[0], dims[1],
               steps);
        fprintf(stderr, "halo: %.3f s; picture in %s\n", seconds, picture);
        free(serial);
    }
    free(plate);
    free(tile);
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return 0;
}
