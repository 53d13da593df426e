/* Asks for a checkpoint of itself, waits to be told that one was made, says so, and goes on with a round each 20 ms: asks
 * ROUNDS. Whether it goes on from that checkpoint it does not know. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* What the file says now. */
static int look(int file, unsigned long *asked, unsigned long *made) {
    char line[64];
    ssize_t length = pread(file, line, sizeof line - 1, 0);
    if (length <= 0) return -1;
    line[length] = 0;
    return sscanf(line, "asked %lu made %lu\n", asked, made) == 2 ? 0 : -1;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    int file = open("/proc/coppice/checkpoint", O_RDWR);
    unsigned long asked, before, made;
    if (file < 0 || look(file, &asked, &before)) return 3;
    printf("at first asked %lu made %lu\n", asked, before);
    fflush(stdout);
    if (write(file, "1", 1) != 1) return 4;
    for (made = before; made == before;) {
        struct pollfd wait = {.fd = file, .events = POLLIN};
        if (poll(&wait, 1, 60000) != 1 || !(wait.revents & POLLIN) || look(file, &asked, &made)) return 5;
    }
    printf("told asked %lu made %lu\n", asked, made);
    for (long round = 0, rounds = atol(argv[1]); round < rounds; round++) {
        struct timespec time = {0, 20000000};
        nanosleep(&time, NULL);
        printf("round %ld\n", round);
        fflush(stdout);
    }
    puts("done");
    return 0;
}
