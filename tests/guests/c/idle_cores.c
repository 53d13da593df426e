/* Sleeps, and says what the node's cores did meanwhile, as /proc/stat has it: a line `cpuN busy BUSY idle IDLE` for each,
   in hundredths of a second. Argument: seconds. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CORES_MAX 64

struct core {
    unsigned long busy, idle;
};

/* Fills in what each core did since boot; how many there are, or -1. */
static int look(struct core *cores) {
    FILE *file = fopen("/proc/stat", "r");
    if (!file) return perror("/proc/stat"), -1;
    char line[256];
    int count = 0;
    while (count < CORES_MAX && fgets(line, sizeof line, file)) {
        struct core core;
        if (sscanf(line, "cpu%*[0-9] %lu %*u %*u %lu", &core.busy, &core.idle) == 2) cores[count++] = core;
    }
    fclose(file);
    return count;
}

int main(int argc, char **argv) {
    static struct core before[CORES_MAX], after[CORES_MAX];
    int count = look(before);
    sleep(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
    if (count < 1 || look(after) != count) return 1;
    for (int core = 0; core < count; core++) {
        printf("cpu%d busy %lu idle %lu\n", core, after[core].busy - before[core].busy, after[core].idle - before[core].idle);
    }
    return 0;
}
