/* family HOW COUNT GENERATIONS: ranks start COUNT others, which start others in turn, as many generations as that, and
 * all of two generations talk with each other.
 *
 * HOW is `together`: all ranks of a generation start them at once; `each`: each starts some of its own, at the same time
 * as the others; `late`: as together, and those who were started outlive the others; `abort`: those of the last
 * generation end in MPI_Abort while the others do nothing; `wait`: those
 * of the last generation are there until somebody ends them; `refused`: who starts them hears of the error and goes on. */
#include "check.h"
#include <string.h>
#include <unistd.h>

static void meet(MPI_Comm between, int is_child, int count) {
    MPI_Comm all;
    MPI_Intercomm_merge(between, is_child, &all);
    int mine, of, sum = 0;
    MPI_Comm_rank(all, &mine);
    MPI_Comm_size(all, &of);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, all);
    CHECK(sum == of * (of - 1) / 2);
    /* Everybody with everybody. */
    for (int other = 0; other < of; other++) {
        int sent = mine * 1000 + other, got = -1;
        int to = (mine + other) % of, from = (mine - other + of) % of;
        MPI_Sendrecv(&sent, 1, MPI_INT, to, 1, &got, 1, MPI_INT, from, 1, all, MPI_STATUS_IGNORE);
        CHECK(got == from * 1000 + other);
    }
    if (!is_child && mine == 0) printf("family: %d ranks and %d that they started agree\n", of - count, count);
    MPI_Comm_free(&all);
}

int main(int argc, char **argv) {
    start(&argc, &argv);
    const char *how = argv[1];
    int count = atoi(argv[2]), generations = atoi(argv[3]);
    MPI_Comm parent, children;
    MPI_Comm_get_parent(&parent);
    char name[64];
    gethostname(name, sizeof name);
    if (parent != MPI_COMM_NULL) {
        printf("family: rank %d of %d on %s, %d left\n", rank, size, name, generations);
        meet(parent, 1, count);
        if (generations == 0 && rank == 0 && !strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 3);
        if (generations == 0 && (!strcmp(how, "abort") || !strcmp(how, "wait"))) pause();
    } else if (rank == 0) {
        int *universe, found;
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &found);
        printf("family: there could be %d ranks\n", found ? *universe : -1);
    }
    fflush(stdout);
    if (generations > 0) {
        char left[16];
        snprintf(left, sizeof left, "%d", generations - 1);
        char *arguments[] = {argv[1], argv[2], left, NULL};
        MPI_Comm us = !strcmp(how, "each") ? MPI_COMM_SELF : MPI_COMM_WORLD;
        int is_refused = !strcmp(how, "refused");
        if (is_refused) MPI_Comm_set_errhandler(us, MPI_ERRORS_RETURN);
        int failed = MPI_Comm_spawn(argv[0], arguments, count, MPI_INFO_NULL, 0, us, &children, MPI_ERRCODES_IGNORE);
        if (is_refused) {
            CHECK(failed != MPI_SUCCESS);
            printf("family: nobody was started\n");
        } else {
            meet(children, 0, count);
            if (!strcmp(how, "abort")) pause();
            MPI_Comm_disconnect(&children);
        }
    }
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_disconnect(&parent);
        if (!strcmp(how, "late")) {
            sleep(1);
            printf("family: rank %d is last\n", rank);
        }
    }
    MPI_Finalize();
    return 0;
}
