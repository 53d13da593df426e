/* The init of another kernel that is measured: starts each program it is given with fork and exec, as a shell would.
   Prints `NAME COUNT`: from right before fork to the first instruction of the program's `main`, in units of the
   time-stamp counter; under `-icount shift=0` that is instructions. The median of a few runs, after some that warm the
   page cache. The programs write the counter to the descriptor in their argument. Ends the machine. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

enum { WARM = 2, RUNS = 5 };

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* What one launch takes; 0: it failed. */
static uint64_t launch(const char *program) {
    int ends[2];
    if (pipe(ends) != 0) return 0;
    char descriptor[12];
    snprintf(descriptor, sizeof descriptor, "%d", ends[1]);
    char *arguments[] = {(char *)program, descriptor, NULL}, *environment[] = {NULL};
    uint64_t start = __rdtsc(), began = 0;
    pid_t child = fork();
    if (child == 0) {
        execve(program, arguments, environment);
        _exit(127);
    }
    close(ends[1]);
    int told = read(ends[0], &began, sizeof began) == sizeof began;
    close(ends[0]);
    if (child > 0) waitpid(child, NULL, 0);
    return told ? began - start : 0;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        uint64_t counts[RUNS];
        for (int run = -WARM; run < RUNS; run++) {
            uint64_t count = launch(argv[i]);
            if (run >= 0) counts[run] = count;
        }
        qsort(counts, RUNS, sizeof counts[0], ascending);
        if (counts[0] > 0) printf("%s %llu\n", argv[i], (unsigned long long)counts[RUNS / 2]);
        else printf("%s cannot be started\n", argv[i]);
    }
    fflush(stdout);
    if (getpid() == 1) reboot(RB_AUTOBOOT);
    return 0;
}
