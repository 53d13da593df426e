/* Speaks PMI version 2 as MPICH's library does: on the inherited descriptor, or with the argument `port` first on
 * PMI_PORT. Ranks of odd numbers do as MPICH 4.0, whose lengths count their own characters: as many bytes more follow.
 *
 *   exchange ROUNDS   in each round every rank puts a card, waits for all, and gets everybody else's
 *   neighbours RANKS  threads of each rank wait for what every rank of their node says, late; so many are on a node
 *   names ROUNDS      in each round every rank publishes a name, which all find, until the rank behind unpublishes it
 *   abort RANK TEXT   that rank aborts the job, the others wait for all
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

#define THREADS 3
#define MESSAGE_BYTES 4096
#define LENGTH_BYTES 6

static int pmi, rank, size;
static char job[256];

static void die(const char *what) {
    printf("rank %d: %s (errno %d)\n", rank, what, errno);
    fflush(stdout);
    _exit(1);
}

static void nap(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void write_all(const char *bytes, int length) {
    for (int done = 0; done < length;) {
        ssize_t count = write(pmi, bytes + done, length - done);
        if (count <= 0) die("cannot write to PMI");
        done += count;
    }
}

static void read_all(char *bytes, int length) {
    for (int done = 0; done < length;) {
        ssize_t count = read(pmi, bytes + done, length - done);
        if (count <= 0) die("cannot read from PMI");
        done += count;
    }
}

static void say(const char *format, ...) {
    char message[LENGTH_BYTES + MESSAGE_BYTES + LENGTH_BYTES + 1];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message + LENGTH_BYTES, MESSAGE_BYTES, format, arguments);
    va_end(arguments);
    memset(message + LENGTH_BYTES + length, ';', LENGTH_BYTES);
    length += rank % 2 ? LENGTH_BYTES : 0;
    char digits[LENGTH_BYTES + 2];
    /* MPICH's client writes the number in front, and Hydra behind the spaces. */
    snprintf(digits, sizeof digits, "%-6d", length);
    memcpy(message, digits, LENGTH_BYTES);
    write_all(message, LENGTH_BYTES + length);
}

static const char *hear(void) {
    static char message[MESSAGE_BYTES + 1];
    char digits[7] = {0};
    read_all(digits, 6);
    int length = atoi(digits);
    if (length < 1 || length > MESSAGE_BYTES) die("a message of no length");
    read_all(message, length);
    message[length] = 0;
    return message;
}

static void expect(const char *format, ...) {
    char answer[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(answer, sizeof answer, format, arguments);
    va_end(arguments);
    const char *message = hear();
    if (strcmp(message, answer)) {
        printf("rank %d: heard '%s', not '%s'\n", rank, message, answer);
        fflush(stdout);
        _exit(1);
    }
}

static void connect_to_port(void) {
    char address[64];
    struct sockaddr_in to = {.sin_family = AF_INET};
    snprintf(address, sizeof address, "%s", getenv("PMI_PORT"));
    char *colon = strchr(address, ':');
    *colon = 0;
    to.sin_port = htons(atoi(colon + 1));
    inet_pton(AF_INET, address, &to.sin_addr);
    pmi = socket(AF_INET, SOCK_STREAM, 0);
    if (pmi < 0 || connect(pmi, (struct sockaddr *)&to, sizeof to)) die("cannot connect to PMI_PORT");
}

static void fence(void) {
    say("cmd=kvs-fence;");
    expect("cmd=kvs-fence-response;rc=0;");
}

static void exchange(int rounds) {
    for (int round = 0; round < rounds; round++) {
        say("cmd=kvs-put;key=card-%d-%d;value=port#%d;;%d;", round, rank, 60000 + rank, round);
        expect("cmd=kvs-put-response;rc=0;");
        if ((rank + round) % 3 == 0) nap(round % 2 ? 30 : 3);
        fence();
        for (int other = 0; other < size; other++) {
            say("cmd=kvs-get;jobid=%s;srcid=%d;key=card-%d-%d;", job, other, round, other);
            expect("cmd=kvs-get-response;found=TRUE;value=port#%d;;%d;rc=0;", 60000 + other, round);
        }
        fence();
    }
}

/* Each thread asks for what all ranks of the node say, and whoever reads an answer has it counted for its thread. */
static void neighbours(int ranks) {
    int first = rank / ranks * ranks, asked = 0, heard[THREADS] = {0};
    for (int other = first; other < first + ranks && other < size; other++) {
        for (int thread = 0; thread < THREADS; thread++) {
            say("cmd=info-getnodeattr;thrid=%d;key=of-%d;wait=TRUE;", thread, other);
        }
        asked++;
    }
    nap(5 * (rank % ranks));
    say("cmd=info-putnodeattr;thrid=put;key=of-%d;value=%d;", rank, rank);
    for (int left = asked * THREADS + 1; left > 0; left--) {
        int thread, value;
        const char *message = hear();
        if (sscanf(message, "cmd=info-getnodeattr-response;thrid=%d;found=TRUE;value=%d;rc=0;", &thread, &value) == 2) {
            if (thread < 0 || thread >= THREADS || value < first || value >= first + ranks) die(message);
            heard[thread]++;
        } else if (strcmp(message, "cmd=info-putnodeattr-response;thrid=put;rc=0;")) {
            die(message);
        }
    }
    for (int thread = 0; thread < THREADS; thread++) {
        if (heard[thread] != asked) die("a thread has not heard all");
    }
}

static void names(int rounds) {
    const char *missing = "found=FALSE;rc=-1;errmsg=name_is_not_published;";
    for (int round = 0; round < rounds; round++) {
        int before = (rank + size - 1) % size;
        say("cmd=name-publish;name=of %d in %d;port=port#%d;;%d;infokeycount=0;", rank, round, 60000 + rank, round);
        expect("cmd=name-publish-response;rc=0;");
        /* One of them is first. */
        say("cmd=name-publish;name=all in %d;port=%d;infokeycount=0;", round, rank);
        int is_first = !!strstr(hear(), ";rc=0;");
        say("cmd=kvs-put;key=first-%d-%d;value=%d;", round, rank, is_first);
        expect("cmd=kvs-put-response;rc=0;");
        fence();
        int first = 0, is_right = 0;
        say("cmd=name-lookup;name=all in %d;infokeycount=0;", round);
        const char *found = hear();
        int winner = strstr(found, ";port=") ? atoi(strstr(found, ";port=") + 6) : -1;
        for (int other = 0; other < size; other++) {
            say("cmd=name-lookup;name=of %d in %d;infokeycount=0;", other, round);
            expect("cmd=name-lookup-response;port=port#%d;;%d;found=TRUE;rc=0;", 60000 + other, round);
            say("cmd=kvs-get;jobid=%s;srcid=%d;key=first-%d-%d;", job, other, round, other);
            if (strstr(hear(), ";value=1;")) first++, is_right = other == winner;
        }
        if (first != 1 || !is_right) die("a name has not one publisher");
        fence();
        say("cmd=name-unpublish;name=of %d in %d;infokeycount=0;", before, round);
        expect("cmd=name-unpublish-response;rc=0;");
        if (rank == winner) {
            say("cmd=name-unpublish;name=all in %d;infokeycount=0;", round);
            expect("cmd=name-unpublish-response;rc=0;");
        }
        fence();
        say("cmd=name-lookup;name=of %d in %d;infokeycount=0;", rank, round);
        expect("cmd=name-lookup-response;%s", missing);
    }
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *text = getenv("PMI_RANK");
    rank = text ? atoi(text) : -1;
    text = getenv("PMI_SIZE");
    size = text ? atoi(text) : -1;
    if (argc > 1 && !strcmp(argv[1], "port")) {
        connect_to_port();
        argv++, argc--;
    } else {
        text = getenv("PMI_FD");
        pmi = text ? atoi(text) : -1;
    }
    if (argc < 3) return 2;
    const char *init = "cmd=init pmi_version=2 pmi_subversion=0\n";
    const char *answer = "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";
    char line[128] = {0};
    write_all(init, strlen(init));
    read_all(line, strlen(answer));
    if (strcmp(line, answer)) die(line);
    say("cmd=fullinit;pmirank=%d;threaded=FALSE;", rank);
    expect("cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=%d;size=%d;appnum=0;debugged=FALSE;"
           "pmiverbose=FALSE;rc=0;", rank, size);
    say("cmd=job-getid;");
    const char *id = hear();
    if (sscanf(id, "cmd=job-getid-response;jobid=%255[^;];rc=0;", job) != 1) die(id);
    say("cmd=info-getjobattr;key=PMI_process_mapping;");
    printf("rank %d of %d: %s\n", rank, size, hear());
    if (!strcmp(argv[1], "exchange")) exchange(atoi(argv[2]));
    if (!strcmp(argv[1], "names")) names(atoi(argv[2]));
    if (!strcmp(argv[1], "neighbours")) neighbours(atoi(argv[2]));
    if (!strcmp(argv[1], "abort")) {
        if (atoi(argv[2]) == rank) say("cmd=abort;isworld=TRUE;msg=%s;", argc > 3 ? argv[3] : "");
        fence();
    }
    say("cmd=finalize;");
    expect("cmd=finalize-response;rc=0;");
    printf("rank %d: done\n", rank);
    return 0;
}
