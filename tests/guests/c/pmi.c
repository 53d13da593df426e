/* Speaks PMI-1 as MPICH's library does: on the inherited descriptor, or with the argument `port` first on PMI_PORT.
 *
 *   exchange ROUNDS   in each round every rank puts a card, waits for all, and gets everybody else's
 *   abort RANK CODE TEXT   that rank aborts the job, the others wait for all
 *   leave RANK HOW   that rank goes away (exit, crash, close), the others wait for all
 *   ready   nothing but the first and the last words
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int pmi, rank, size;
static char space[256];

static void die(const char *what) {
    printf("rank %d: %s (errno %d)\n", rank, what, errno);
    fflush(stdout);
    _exit(1);
}

static void say(const char *format, ...) {
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (int done = 0; done < length;) {
        ssize_t count = write(pmi, line + done, length - done);
        if (count <= 0) die("cannot write to PMI");
        done += count;
    }
}

static const char *hear(void) {
    static char line[2048];
    for (size_t length = 0; length < sizeof line - 1; length++) {
        ssize_t count = read(pmi, line + length, 1);
        if (count != 1) die("cannot read from PMI");
        if (line[length] == '\n') {
            line[length] = 0;
            return line;
        }
    }
    die("a line of PMI without end");
    return NULL;
}

static void expect(const char *answer) {
    const char *line = hear();
    if (strcmp(line, answer)) {
        printf("rank %d: heard '%s', not '%s'\n", rank, line, answer);
        fflush(stdout);
        _exit(1);
    }
}

static void on_port(void) {
    char address[64];
    struct sockaddr_in to = {.sin_family = AF_INET};
    snprintf(address, sizeof address, "%s", getenv("PMI_PORT"));
    char *colon = strchr(address, ':');
    *colon = 0;
    to.sin_port = htons(atoi(colon + 1));
    inet_pton(AF_INET, address, &to.sin_addr);
    pmi = socket(AF_INET, SOCK_STREAM, 0);
    if (pmi < 0 || connect(pmi, (struct sockaddr *)&to, sizeof to)) die("cannot connect to PMI_PORT");
    char answer[64];
    say("cmd=initack pmiid=%s\n", getenv("PMI_ID"));
    expect("cmd=initack");
    snprintf(answer, sizeof answer, "cmd=set size=%d", size);
    expect(answer);
    snprintf(answer, sizeof answer, "cmd=set rank=%d", rank);
    expect(answer);
    expect("cmd=set debug=0");
}

static void barrier(void) {
    say("cmd=barrier_in\n");
    expect("cmd=barrier_out");
}

static void nap(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void exchange(int rounds) {
    char answer[1400];
    double start = now();
    for (int round = 0; round < rounds; round++) {
        say("cmd=put kvsname=%s key=card-%d-%d value=port#%d$round#%d$\n", space, round, rank, 60000 + rank, round);
        expect("cmd=put_result rc=0 msg=success");
        /* Ranks come late in turns, and the one that was late is early next time. */
        if ((rank + round) % 3 == 0) nap(round % 2 ? 30 : 3);
        barrier();
        for (int other = 0; other < size; other++) {
            say("cmd=get kvsname=%s key=card-%d-%d\n", space, round, other);
            snprintf(answer, sizeof answer, "cmd=get_result rc=0 msg=success value=port#%d$round#%d$", 60000 + other,
                     round);
            expect(answer);
        }
        /* Right behind each other. */
        barrier();
    }
    fprintf(stderr, "rank %d: %d rounds in %.1f ms\n", rank, rounds, (now() - start) * 1e3);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *text = getenv("PMI_RANK");
    rank = text ? atoi(text) : -1;
    text = getenv("PMI_SIZE");
    size = text ? atoi(text) : -1;
    if (argc > 1 && !strcmp(argv[1], "port")) {
        on_port();
        argv++, argc--;
    } else {
        text = getenv("PMI_FD");
        pmi = text ? atoi(text) : -1;
    }
    if (argc < 2) return 2;
    say("cmd=init pmi_version=1 pmi_subversion=1\n");
    expect("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
    say("cmd=get_maxes\n");
    expect("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024");
    say("cmd=get_appnum\n");
    expect("cmd=appnum appnum=0");
    say("cmd=get_my_kvsname\n");
    if (sscanf(hear(), "cmd=my_kvsname kvsname=%255s", space) != 1) die("no name of a space");
    say("cmd=get kvsname=%s key=PMI_process_mapping\n", space);
    printf("rank %d of %d: %s\n", rank, size, strstr(hear(), "value="));
    if (!strcmp(argv[1], "exchange") && argc > 2) {
        exchange(atoi(argv[2]));
    } else if (!strcmp(argv[1], "abort") && argc > 4) {
        if (rank == atoi(argv[2])) {
            say("cmd=abort exitcode=%s message=%s\n", argv[3], argv[4]);
            hear();
        }
        barrier();
    } else if (!strcmp(argv[1], "leave") && argc > 3) {
        if (rank == atoi(argv[2])) {
            nap(100);
            if (!strcmp(argv[3], "exit")) exit(7);
            if (!strcmp(argv[3], "crash")) *(volatile int *)0 = 0;
            close(pmi);
            nap(60000);
        }
        barrier();
    } else if (strcmp(argv[1], "ready")) {
        return 2;
    }
    say("cmd=finalize\n");
    expect("cmd=finalize_ack");
    printf("rank %d: done\n", rank);
    return 0;
}
