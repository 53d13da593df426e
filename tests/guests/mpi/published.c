/* Every rank publishes the name of a port, finds those of all others, and gets a call from the rank before it. */
#include <string.h>

#include "check.h"

#define NAME_BYTES 64

/* A name may have spaces, which is more than Hydra takes with version 1 of PMI. */
static const char *name_of(int of) {
    static char name[NAME_BYTES];
    snprintf(name, sizeof name, "service of %d", of);
    return name;
}

static void call_next(char (*ports)[MPI_MAX_PORT_NAME]) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size, got = -1;
    MPI_Comm up, down;
    /* In turns, so that nobody waits for somebody who waits for him. */
    for (int turn = 0; turn < 2; turn++) {
        if (rank % 2 == turn) {
            CHECK(MPI_Comm_connect(ports[next], MPI_INFO_NULL, 0, MPI_COMM_SELF, &up) == MPI_SUCCESS);
        } else {
            CHECK(MPI_Comm_accept(ports[rank], MPI_INFO_NULL, 0, MPI_COMM_SELF, &down) == MPI_SUCCESS);
        }
    }
    MPI_Send(&rank, 1, MPI_INT, 0, 0, up);
    MPI_Recv(&got, 1, MPI_INT, 0, 0, down, MPI_STATUS_IGNORE);
    CHECK(got == before);
    MPI_Comm_disconnect(rank % 2 ? &down : &up);
    MPI_Comm_disconnect(rank % 2 ? &up : &down);
}

int main(int argc, char **argv) {
    start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    char port[MPI_MAX_PORT_NAME] = "", (*ports)[MPI_MAX_PORT_NAME] = calloc(size, sizeof *ports);
    CHECK(MPI_Open_port(MPI_INFO_NULL, port) == MPI_SUCCESS);
    CHECK(MPI_Lookup_name(name_of(rank), MPI_INFO_NULL, ports[rank]) != MPI_SUCCESS);
    CHECK(MPI_Publish_name(name_of(rank), MPI_INFO_NULL, port) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int of = 0; of < size; of++) {
        CHECK(MPI_Lookup_name(name_of(of), MPI_INFO_NULL, ports[of]) == MPI_SUCCESS);
        CHECK(MPI_Publish_name(name_of(of), MPI_INFO_NULL, port) != MPI_SUCCESS);
    }
    CHECK(!strcmp(ports[rank], port));
    MPI_Barrier(MPI_COMM_WORLD);
    if (size % 2 == 0) call_next(ports);
    CHECK(MPI_Unpublish_name(name_of(rank), MPI_INFO_NULL, port) == MPI_SUCCESS);
    CHECK(MPI_Unpublish_name(name_of(rank), MPI_INFO_NULL, port) != MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int of = 0; of < size; of++) CHECK(MPI_Lookup_name(name_of(of), MPI_INFO_NULL, ports[of]) != MPI_SUCCESS);
    MPI_Close_port(port);
    if (rank == 0) printf("published: %d ranks found each other\n", size);
    MPI_Finalize();
    return 0;
}
