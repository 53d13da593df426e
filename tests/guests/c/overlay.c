/* Does known amounts of things, and says how much of each it did by its own count: `overlay PEER… `, a file `input` of
   at least a MiB in its directory. Before that and after it, it sleeps for a while, so that all of it is within epochs
   that are looked at as a whole. Each rank sends to the next one, whose address is PEER number (rank + 1) mod n.

   Prints `NAME VALUE` for: user (ns of processor time while it computed), used (ns of processor time in the program, all
   in all), sleep (ns that it wanted to sleep meanwhile), shipped (bytes read), sent, received, faults (of pages that it touched first), calls (at least). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT 9100
#define PAGES 300
#define SENT (300 * 1000)
#define READ (1 << 20)

static long long ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void rest(long ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static struct sockaddr_in name(const char *address) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    inet_aton(address, &name.sin_addr);
    return name;
}

int main(int count, char **arguments) {
    int size = count - 1, rank = atoi(getenv("COPPICE_RANK"));
    static char buffer[64 * 1024];
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    if (bind(listener, (void *)&any, sizeof any) != 0 || listen(listener, 4) != 0)
        return 2;
    rest(1200);

    long long begun = ns(CLOCK_PROCESS_CPUTIME_ID);
    volatile unsigned long sum = 0;
    for (int turn = 0; turn < 300 * (1 + rank % 2); turn++)
        for (int i = 0; i < 100000; i++)
            sum += i;
    long long user = ns(CLOCK_PROCESS_CPUTIME_ID) - begun;

    rest(700);

    struct rusage before, after;
    char *area = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getrusage(RUSAGE_SELF, &before);
    for (int page = 0; page < PAGES; page++)
        area[page * 4096] = 1;
    getrusage(RUSAGE_SELF, &after);
    long faults = after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt;

    int file = open("input", O_RDONLY);
    long shipped = 0;
    for (ssize_t got; shipped < READ && (got = read(file, buffer, sizeof buffer)) > 0;)
        shipped += got;
    close(file);

    struct sockaddr_in next = name(arguments[1 + (rank + 1) % size]);
    int to = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(to, (void *)&next, sizeof next) != 0)
        return 3;
    int from = accept(listener, NULL, NULL);
    long sent = 0, received = 0;
    while (sent < SENT) {
        ssize_t did = send(to, buffer, SENT - sent < 20000 ? SENT - sent : 20000, 0);
        if (did < 0)
            return 4;
        sent += did;
        /* As much as may be there already: nobody waits for the other to read. */
        for (ssize_t got; (got = recv(from, buffer, sizeof buffer, MSG_DONTWAIT)) > 0;)
            received += got;
    }
    shutdown(to, SHUT_WR);
    for (ssize_t got; (got = recv(from, buffer, sizeof buffer, 0)) > 0;)
        received += got;

    rest(1200);
    getrusage(RUSAGE_SELF, &after);
    long long used = after.ru_utime.tv_sec * 1000000000LL + after.ru_utime.tv_usec * 1000LL;
    printf("user %lld\nused %lld\nsleep %lld\nshipped %ld\nsent %ld\nreceived %ld\nfaults %ld\n", user, used, 700000000LL,
           shipped, sent, received, faults);
    return 0;
}
