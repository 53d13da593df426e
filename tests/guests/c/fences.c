/* How long barriers of PMI take in which every rank puts as many bytes, or nothing: the mean of those after some first
   ones, printed by rank 0. They are as many as the second argument says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FIRST = 5 };

static int pmi;
static char answer[2048];

static void ask(const char *line) {
    size_t length = strlen(line);
    if (write(pmi, line, length) != (ssize_t)length) exit(1);
    ssize_t got = read(pmi, answer, sizeof answer - 1);
    if (got <= 0) exit(2);
    answer[got] = 0;
    if (strstr(answer, "rc=-1")) {
        printf("%s", answer);
        exit(3);
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

/* Letters that do not follow from each other, as those of addresses do not. */
static void fill(char *value, int bytes, unsigned seed) {
    for (int i = 0; i < bytes; i++) {
        seed = seed * 1664525 + 1013904223;
        value[i] = 'a' + (seed >> 24) % 26;
    }
    value[bytes] = 0;
}

static double barriers(const char *space, int rank, int bytes, int counted) {
    static char value[1024], line[2048];
    double total = 0;
    for (int i = 0; i < FIRST + counted; i++) {
        if (bytes) {
            fill(value, bytes, 31 * rank + i);
            snprintf(line, sizeof line, "cmd=put kvsname=%s key=r%d-%d value=%s\n", space, i, rank, value);
            ask(line);
        }
        double begun = now();
        ask("cmd=barrier_in\n");
        if (i >= FIRST) total += now() - begun;
    }
    return total / counted;
}

int main(int argc, char **argv) {
    int bytes = argc > 1 ? atoi(argv[1]) : 1000;
    int rank = atoi(getenv("PMI_RANK"));
    char space[64];
    pmi = atoi(getenv("PMI_FD"));
    ask("cmd=init pmi_version=1 pmi_subversion=1\n");
    ask("cmd=get_my_kvsname\n");
    if (sscanf(answer, "cmd=my_kvsname kvsname=%63s", space) != 1) return 4;
    if (rank == 0) {
        printf("begins\n");
        fflush(stdout);
    }
    double mean = barriers(space, rank, bytes > 1000 ? 1000 : bytes, argc > 2 ? atoi(argv[2]) : 20);
    if (rank == 0) printf("fence-us %.1f\n", mean);
    ask("cmd=finalize\n");
    return 0;
}
