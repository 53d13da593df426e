/* Locks of a file between ranks: `locks_between WHAT FILE…`; see what each does below. Ranks tell each other that they
   are somewhere by making files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static int rank, size;
static const char *base;

static void fail(const char *what) {
    printf("rank %d: %s: %s\n", rank, what, strerror(errno));
    fflush(stdout);
    _exit(1);
}

static struct flock lock_of(short kind, long start, long length) {
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return lock;
}

static int lock(int fd, int command, short kind, long start, long length) {
    struct flock lock = lock_of(kind, start, length);
    return fcntl(fd, command, &lock);
}

static const char *sign(const char *what, int of) {
    static char path[256];
    snprintf(path, sizeof path, "%s-%s-%d", base, what, of);
    return path;
}

static void say(const char *what) {
    int fd = open(sign(what, rank), O_CREAT | O_WRONLY, 0666);
    if (fd < 0 || close(fd) < 0) fail("sign");
}

static void hear(const char *what, int of) {
    while (access(sign(what, of), F_OK) < 0) usleep(5000);
}

static void hear_all(const char *what) {
    for (int of = 0; of < size; of++)
        if (of != rank) hear(what, of);
}

static int opened(void) {
    int fd = open(base, O_RDWR | O_CREAT, 0666);
    if (fd < 0) fail("open");
    return fd;
}

/* `count FILE KIND TIMES`: each rank adds one to a number in the file that many times, locked so. */
static void count(const char *kind, int times) {
    int fd = opened();
    say("there"), hear_all("there");
    for (int i = 0; i < times; i++) {
        int done, byte = i % 2 ? 0 : 100;
        if (!strcmp(kind, "flock")) done = flock(fd, LOCK_EX);
        else done = lock(fd, *kind == 'o' ? F_OFD_SETLKW : F_SETLKW, F_WRLCK, byte, 200 - byte);
        if (done < 0) fail("lock");
        long number = 0;
        if (pread(fd, &number, sizeof number, 0) < 0) fail("pread");
        number++;
        if (pwrite(fd, &number, sizeof number, 0) != sizeof number) fail("pwrite");
        if (!strcmp(kind, "flock")) done = flock(fd, LOCK_UN);
        else done = lock(fd, *kind == 'o' ? F_OFD_SETLK : F_SETLK, F_UNLCK, 0, 0);
        if (done < 0) fail("unlock");
    }
}

/* `holder FILE HOW`: rank 0 has a lock, which others find; when it ends, one that waits has it. */
static void holder(const char *how) {
    int fd = opened();
    if (rank == 0) {
        if (lock(fd, F_SETLK, F_WRLCK, 10, 20) < 0) fail("lock");
        printf("%d has it\n", getpid());
        fflush(stdout);
        say("held"), hear_all("seen");
        usleep(200000);
        if (!strcmp(how, "killed")) raise(SIGKILL);
        if (!strcmp(how, "closed")) {
            close(open(base, O_RDONLY));
            hear("had", size - 1);
        }
        _exit(0);
    }
    hear("held", 0);
    struct flock found = lock_of(F_RDLCK, 0, 0);
    if (fcntl(fd, F_GETLK, &found) < 0) fail("look");
    if (lock(fd, F_SETLK, F_RDLCK, 29, 1) == 0 || errno != EAGAIN) fail("it was to be taken");
    if (lock(fd, F_SETLK, F_RDLCK, 30, 1) < 0) fail("it was to be free");
    printf("rank %d: %d has %d from %ld, %ld bytes\n", rank, found.l_pid, found.l_type, (long)found.l_start,
           (long)found.l_len);
    fflush(stdout);
    if (rank == size - 1) {
        say("seen");
        if (lock(fd, F_SETLKW, F_RDLCK, 0, 0) < 0) fail("wait");
        printf("rank %d has it\n", rank);
        fflush(stdout);
        say("had");
    } else {
        say("seen");
    }
}

/* `deadlock FILE`: the first and the last rank want what the other has; one of them is told so. */
static void deadlock(void) {
    int fd = opened(), other = size - 1 - rank;
    if (rank != 0 && rank != size - 1) return;
    if (lock(fd, F_SETLK, F_WRLCK, rank, 1) < 0) fail("lock");
    say("there"), hear("there", other);
    int done = lock(fd, F_SETLKW, F_WRLCK, other, 1);
    printf("%s\n", done < 0 ? strerrorname_np(errno) : "has both");
}

static void ring(int signal) { (void)signal; }

/* `interrupted FILE`: who waits is interrupted by a signal, and waits on with SA_RESTART. */
static void interrupted(void) {
    int fd = opened();
    if (rank == 0) {
        if (flock(fd, LOCK_EX) < 0) fail("lock");
        say("held"), hear("done", size - 1);
        usleep(1500000);
        return;
    }
    if (rank != size - 1) return;
    hear("held", 0);
    struct sigaction action = {.sa_handler = ring};
    sigaction(SIGALRM, &action, NULL);
    alarm(1);
    int done = flock(fd, LOCK_SH);
    printf("%d %s\n", done, strerrorname_np(errno));
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    alarm(1);
    say("done");
    printf("%d\n", flock(fd, LOCK_SH));
}

/* `turns FILE MILLISECONDS`: all want a lock again and again for that long. How often each had it. */
static void turns(int milliseconds) {
    int fd = opened(), times = 0;
    struct timespec begun, now;
    say("there"), hear_all("there");
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        if (lock(fd, F_SETLKW, F_WRLCK, 0, 1) < 0 || lock(fd, F_SETLK, F_UNLCK, 0, 1) < 0) fail("lock");
        times++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 < milliseconds);
    printf("%d\n", times);
}

/* `holds FILE`: has a lock until it is told to go on. `tries FILE`: what comes of an attempt. */
static void holds(void) {
    char byte;
    int fd = opened();
    if (lock(fd, F_SETLK, F_WRLCK, 0, 1) < 0) fail("lock");
    puts("held");
    fflush(stdout);
    if (read(0, &byte, 1) < 0) fail("read");
}

static void tries(void) {
    int fd = opened();
    struct flock found = lock_of(F_RDLCK, 0, 0);
    if (fcntl(fd, F_GETLK, &found) < 0) fail("look");
    printf("%d %d\n", found.l_type, found.l_pid);
    printf("%s\n", lock(fd, F_SETLK, F_RDLCK, 0, 1) < 0 ? strerrorname_np(errno) : "has it");
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[1] : "";
    rank = atoi(getenv("COPPICE_RANK"));
    size = atoi(getenv("COPPICE_SIZE"));
    base = argv[2];
    if (!strcmp(what, "count")) count(argv[3], atoi(argv[4]));
    else if (!strcmp(what, "holder")) holder(argv[3]);
    else if (!strcmp(what, "deadlock")) deadlock();
    else if (!strcmp(what, "interrupted")) interrupted();
    else if (!strcmp(what, "turns")) turns(atoi(argv[3]));
    else if (!strcmp(what, "holds")) holds();
    else tries();
    return 0;
}
