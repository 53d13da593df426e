/* splice, tee, vmsplice between pipes, files and sockets; pipes that keep packets apart; locks that the kernel hands on.
 * Prints what the host prints. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SAY(call)                                                                   \
    do {                                                                            \
        errno = 0;                                                                  \
        long result_ = (long)(call);                                                \
        printf("%s = %ld, %s\n", #call, result_, result_ < 0 ? strerror(errno) : "-"); \
    } while (0)

static char text[1 << 20];

static void show(int fd, int length) {
    long got = read(fd, text, length);
    printf("  read %ld: %.*s\n", got, got > 40 ? 40 : (int)(got < 0 ? 0 : got), text);
}

static void *feeds(void *fd) {
    usleep(20000);
    if (write(*(int *)fd, "late", 4) != 4) abort();
    return NULL;
}

static void splices(void) {
    puts("splice:");
    int one[2], two[2], file = open("splice.tmp", O_RDWR | O_CREAT | O_TRUNC, 0600);
    pipe(one), pipe(two);
    loff_t at = 3, zero = 0;
    SAY(splice(one[0], NULL, two[1], NULL, 0, 0));
    SAY(splice(one[0], NULL, two[1], NULL, 5, 0x100));
    SAY(splice(one[1], NULL, two[1], NULL, 5, 0));
    SAY(splice(99, NULL, two[1], NULL, 5, 0));
    SAY(splice(one[0], NULL, one[1], NULL, 5, 0));
    SAY(splice(file, NULL, file, NULL, 5, 0));
    SAY(splice(one[0], &at, two[1], NULL, 5, 0));
    SAY(splice(one[0], NULL, two[1], NULL, 5, SPLICE_F_NONBLOCK));
    write(one[1], "0123456789", 10);
    SAY(splice(one[0], NULL, two[1], NULL, 4, 0));
    SAY(tee(one[0], two[1], 3, 0));
    SAY(tee(one[0], one[1], 3, 0));
    SAY(tee(file, one[1], 3, 0));
    SAY(splice(one[0], NULL, two[1], NULL, 100, 0));
    show(two[0], 100);
    /* Waiting for bytes that come late. */
    pthread_t thread;
    pthread_create(&thread, NULL, feeds, &one[1]);
    SAY(splice(one[0], NULL, two[1], NULL, 100, 0));
    pthread_join(thread, NULL);
    show(two[0], 100);
    /* To a file and back. */
    write(one[1], "to a file", 9);
    SAY(splice(one[0], NULL, file, NULL, 100, 0));
    SAY(lseek(file, 0, SEEK_CUR));
    write(one[1], "XY", 2);
    SAY(splice(one[0], NULL, file, &at, 100, 0));
    printf("  at %ld\n", (long)at);
    SAY(lseek(file, 0, SEEK_CUR));
    SAY(splice(file, &zero, one[1], NULL, 4, 0));
    printf("  at %ld\n", (long)zero);
    SAY(splice(file, NULL, one[1], NULL, 100, 0));
    lseek(file, 5, SEEK_SET);
    SAY(splice(file, NULL, one[1], NULL, 100, 0));
    SAY(lseek(file, 0, SEEK_CUR));
    show(one[0], 100);
    /* More than a pipe holds. */
    memset(text, 'x', 200000);
    pwrite(file, text, 200000, 0);
    zero = 0;
    SAY(splice(file, &zero, one[1], NULL, 200000, 0));
    SAY(splice(file, &zero, one[1], NULL, 200000, SPLICE_F_NONBLOCK));
    SAY(splice(one[0], NULL, two[1], NULL, 200000, 0));
    SAY(tee(two[0], one[1], 200000, 0));
    show(one[0], 200000);
    show(two[0], 200000);
    int appends = open("splice.tmp", O_WRONLY | O_APPEND);
    SAY(splice(one[0], NULL, appends, NULL, 5, 0));
    /* Sockets. */
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    write(one[1], "to a socket", 11);
    SAY(splice(one[0], NULL, pair[0], NULL, 100, 0));
    SAY(splice(pair[1], NULL, two[1], NULL, 4, 0));
    SAY(splice(pair[1], NULL, two[1], NULL, 100, 0));
    show(two[0], 100);
    SAY(splice(pair[1], &at, two[1], NULL, 100, 0));
    int listening = socket(AF_INET, SOCK_STREAM, 0), peer = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof name;
    bind(listening, (struct sockaddr *)&name, length), listen(listening, 1);
    getsockname(listening, (struct sockaddr *)&name, &length);
    connect(peer, (struct sockaddr *)&name, length);
    int accepted = accept(listening, NULL, NULL);
    write(one[1], "over TCP", 8);
    SAY(splice(one[0], NULL, peer, NULL, 100, 0));
    struct pollfd come = {accepted, POLLIN, 0};
    poll(&come, 1, -1);
    SAY(splice(accepted, NULL, two[1], NULL, 100, 0));
    show(two[0], 100);
    close(peer);
    poll(&come, 1, -1);
    SAY(splice(accepted, NULL, two[1], NULL, 100, 0));
    /* sendfile to all of them. */
    pwrite(file, "sent by file", 12, 0);
    zero = 0;
    SAY(sendfile(pair[0], file, &zero, 12));
    show(pair[1], 100);
    lseek(file, 5, SEEK_SET);
    SAY(sendfile(one[1], file, NULL, 7));
    show(one[0], 100);
    /* Memory. */
    struct iovec parts[2] = {{"from ", 5}, {"memory", 6}};
    SAY(vmsplice(one[1], parts, 2, 0));
    char back[20] = {0};
    struct iovec into = {back, 11};
    SAY(vmsplice(one[0], &into, 1, 0));
    puts(back);
    SAY(vmsplice(one[0], &into, 1, SPLICE_F_NONBLOCK));
    SAY(vmsplice(file, parts, 2, 0));
    /* Ends that are gone. */
    close(one[1]);
    SAY(splice(one[0], NULL, two[1], NULL, 5, 0));
    write(two[1], "x", 1);
    pipe(one);
    write(one[1], "y", 1);
    close(two[0]);
    signal(SIGPIPE, SIG_IGN);
    SAY(splice(one[0], NULL, two[1], NULL, 5, 0));
    SAY(vmsplice(two[1], parts, 2, 0));
    unlink("splice.tmp");
}

static void packets(void) {
    puts("packets:");
    int ends[2];
    SAY(pipe2(ends, O_DIRECT | O_NONBLOCK));
    SAY(fcntl(ends[1], F_GETFL) & O_DIRECT);
    SAY(write(ends[1], "abc", 3));
    SAY(write(ends[1], "", 0));
    SAY(write(ends[1], "defgh", 5));
    show(ends[0], 2);
    show(ends[0], 100);
    show(ends[0], 100);
    memset(text, 'p', 10000);
    SAY(write(ends[1], text, 10000));
    show(ends[0], 10000);
    show(ends[0], 100);
    show(ends[0], 10000);
    show(ends[0], 10000);
    int count = 0;
    while (write(ends[1], "z", 1) == 1) count++;
    printf("packets until full %d, %s\n", count, strerror(errno));
    struct pollfd entry = {ends[1], POLLOUT, 0};
    SAY(poll(&entry, 1, 0));
    show(ends[0], 100);
    SAY(poll(&entry, 1, 0));
}

/* --- Locks that the kernel hands on. --- */

#define LOCK_PI 6
#define UNLOCK_PI 7
#define TRYLOCK_PI 8
#define LOCK_PI2 13

static uint32_t word;
static long futex(int what, void *at, const struct timespec *until) {
    return syscall(SYS_futex, at, what | 128, 0, until, NULL, 0);
}

static pthread_mutex_t mutex;
static int sum, dead;
static volatile int has, let_go;

static void *adds(void *unused) {
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&mutex);
        int old = sum;
        if (i % 50 == 0) usleep(100);
        sum = old + 1;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *dies(void *unused) {
    dead = pthread_mutex_lock(&mutex);
    has = 1;
    while (!let_go) usleep(1000);
    usleep(20000);
    return NULL;
}

static void *takes(void *unused) {
    return (void *)(long)futex(LOCK_PI, &word, NULL);
}

static volatile int handled;
static void handler(int signal) { handled++; }

static void locks(void) {
    puts("locks:");
    uint32_t self = syscall(SYS_gettid);
    SAY(futex(UNLOCK_PI, &word, NULL));
    SAY(futex(LOCK_PI, &word, NULL));
    printf("mine %d\n", word == self);
    SAY(futex(LOCK_PI, &word, NULL));
    SAY(futex(TRYLOCK_PI, &word, NULL));
    SAY(futex(LOCK_PI, (char *)&word + 1, NULL));
    /* Handed on to one that waits. */
    pthread_t thread;
    pthread_create(&thread, NULL, takes, NULL);
    while (!(*(volatile uint32_t *)&word & 0x80000000u)) usleep(1000);
    SAY(futex(UNLOCK_PI, &word, NULL));
    printf("handed on %d\n", (word & 0x3fffffff) != self && (word & 0x3fffffff) != 0);
    void *result;
    pthread_join(thread, &result);
    printf("taken %ld\n", (long)result);
    word = 4194303;
    SAY(futex(LOCK_PI, &word, NULL));
    word = 0;
    /* Times. */
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    SAY(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT));
    SAY(pthread_mutex_init(&mutex, &attributes));
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, adds, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("sum %d\n", sum);
    pthread_mutex_destroy(&mutex);
    /* A holder that is gone, and one who waits meanwhile, with signals. */
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    SAY(pthread_mutex_init(&mutex, &attributes));
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, NULL);
    pthread_create(&thread, NULL, dies, NULL);
    while (!has) usleep(1000);
    ualarm(3000, 3000);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec -= until.tv_nsec > 500000000 ? 400000000 : 0;
    SAY(pthread_mutex_timedlock(&mutex, &until) == ETIMEDOUT);
    while (!handled) usleep(1000);
    let_go = 1;
    SAY(pthread_mutex_lock(&mutex) == EOWNERDEAD);
    ualarm(0, 0);
    pthread_join(thread, NULL);
    printf("dead %d, handled %d\n", dead, handled > 0);
    SAY(pthread_mutex_consistent(&mutex));
    SAY(pthread_mutex_unlock(&mutex));
    SAY(pthread_mutex_lock(&mutex));
    SAY(pthread_mutex_unlock(&mutex));
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    splices();
    packets();
    locks();
    return 0;
}
