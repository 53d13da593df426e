/* Calls that language runtimes make: timers and signals that are read, memory with a descriptor, what a process says of
 * itself. Prints what the host prints. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SAY(call)                                                                   \
    do {                                                                            \
        errno = 0;                                                                  \
        long result_ = (long)(call);                                                \
        printf("%s = %ld, %s\n", #call, result_, result_ < 0 ? strerror(errno) : "-"); \
    } while (0)

#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_GET_SEALS 1034
#endif
#ifndef SCHED_BATCH
#define SCHED_BATCH 3
#endif

static int ready(int fd, int milliseconds) {
    struct pollfd entry = {fd, POLLIN | POLLOUT, 0};
    int count = poll(&entry, 1, milliseconds);
    return count < 0 ? -1 : entry.revents;
}

static struct itimerspec in(long value_ms, long interval_ms) {
    return (struct itimerspec){{interval_ms / 1000, interval_ms % 1000 * 1000000}, {value_ms / 1000, value_ms % 1000 * 1000000}};
}

/* --- Timers that are read. --- */

static void *spins(void *of) {
    /* Another core, or this one in turns: the timer must be up while a thread never leaves the processor. */
    while (!*(volatile int *)of) {}
    return NULL;
}

static void timers(void) {
    puts("timerfd:");
    uint64_t count = 99, more[12];
    struct itimerspec now, old;
    SAY(timerfd_create(42, 0));
    SAY(timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0));
    SAY(timerfd_create(CLOCK_MONOTONIC, 1));
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    SAY(fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK));
    SAY(fcntl(fd, F_GETFD));
    SAY(read(fd, &count, 8));
    SAY(ready(fd, 0));
    SAY(write(fd, &count, 8));
    SAY(pread(fd, &count, 8, 0));
    struct itimerspec once = in(20, 0), often = in(10, 10), wrong = in(10, 0), never = in(0, 10);
    wrong.it_value.tv_nsec = 1000000000;
    SAY(timerfd_settime(fd, 0, &wrong, NULL));
    SAY(timerfd_settime(fd, 8, &once, NULL));
    SAY(timerfd_settime(1, 0, &once, NULL));
    SAY(timerfd_settime(99, 0, &once, NULL));
    SAY(timerfd_settime(fd, 0, NULL, NULL));
    SAY(timerfd_gettime(1, &now));
    struct itimerspec later = in(1000000, 5);
    SAY(timerfd_settime(fd, 0, &later, NULL));
    SAY(timerfd_gettime(fd, &now));
    printf("left %d, interval %ld\n", now.it_value.tv_sec > 0 && now.it_value.tv_sec < 1000, now.it_interval.tv_nsec);
    SAY(timerfd_settime(fd, 0, &once, NULL));
    SAY(ready(fd, -1));
    SAY(read(fd, &count, 7));
    SAY(read(fd, more, sizeof more));
    count = more[0];
    printf("count %ld\n", (long)count);
    SAY(ready(fd, 0));
    SAY(timerfd_gettime(fd, &now));
    printf("left %ld %ld\n", (long)now.it_value.tv_sec, now.it_value.tv_nsec);
    /* Setting it again forgets that it was up. */
    timerfd_settime(fd, 0, &once, NULL);
    ready(fd, -1);
    SAY(timerfd_settime(fd, 0, &never, &old));
    printf("old %ld %ld, interval %ld\n", (long)old.it_value.tv_sec, old.it_value.tv_nsec, old.it_interval.tv_nsec);
    SAY(read(fd, &count, 8));
    SAY(ready(fd, 30));
    /* Several times before it is read. */
    timerfd_settime(fd, 0, &often, NULL);
    usleep(55000);
    SAY(read(fd, &count, 8));
    printf("several %d\n", count >= 5);
    timerfd_settime(fd, 0, &never, NULL);
    SAY(read(fd, &count, 8));
    /* A time that is past; by epoll, edges once. */
    int poller = epoll_create1(0);
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u32 = 7}}, got;
    SAY(epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event));
    struct itimerspec past = {{0, 0}, {1, 0}};
    SAY(timerfd_settime(fd, TFD_TIMER_ABSTIME, &past, NULL));
    SAY(epoll_wait(poller, &got, 1, -1));
    SAY(epoll_wait(poller, &got, 1, 0));
    SAY(timerfd_settime(fd, 0, &once, NULL));
    SAY(epoll_wait(poller, &got, 1, -1));
    SAY(epoll_wait(poller, &got, 1, 0));
    SAY(read(fd, &count, 8));
    /* By the time of day, waiting. */
    int day = timerfd_create(CLOCK_REALTIME, 0);
    struct timespec clock;
    clock_gettime(CLOCK_REALTIME, &clock);
    struct itimerspec soon = {{0, 0}, clock};
    soon.it_value.tv_nsec += 30000000;
    if (soon.it_value.tv_nsec >= 1000000000) soon.it_value.tv_sec++, soon.it_value.tv_nsec -= 1000000000;
    SAY(timerfd_settime(day, TFD_TIMER_ABSTIME, &soon, NULL));
    SAY(read(day, &count, 8));
    /* While a thread that set it never leaves the processor. */
    volatile int stop = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, spins, (void *)&stop);
    timerfd_settime(day, 0, &once, NULL);
    SAY(read(day, &count, 8));
    stop = 1;
    pthread_join(thread, NULL);
    close(poller), close(fd), close(day);
}

/* --- Signals that are read. --- */

static int reader_fd;
static void *reads(void *unused) {
    struct signalfd_siginfo info;
    long got = read(reader_fd, &info, sizeof info);
    printf("a thread read %ld, signal %d\n", got, info.ssi_signo);
    return NULL;
}

static void signals(void) {
    puts("signalfd:");
    struct signalfd_siginfo infos[4];
    sigset_t set, more;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN + 3);
    sigprocmask(SIG_BLOCK, &set, NULL);
    SAY(syscall(SYS_signalfd4, -1, &set, 4, 0));
    SAY(signalfd(-1, &set, 1));
    SAY(signalfd(1, &set, 0));
    SAY(signalfd(99, &set, 0));
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    SAY(fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK));
    SAY(ready(fd, 0));
    SAY(read(fd, infos, sizeof infos));
    SAY(read(fd, infos, 100));
    SAY(write(fd, infos, sizeof infos));
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR1);
    sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 5});
    sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 6});
    SAY(ready(fd, 0));
    long got = read(fd, infos, sizeof infos);
    printf("read %ld\n", got);
    for (int i = 0; i < got / (long)sizeof *infos; i++)
        printf("  signal %d code %d pid %d uid %d value %d %d\n", infos[i].ssi_signo - (i ? SIGRTMIN : 0), infos[i].ssi_code,
               infos[i].ssi_pid == (unsigned)getpid(), infos[i].ssi_uid == getuid(), infos[i].ssi_int, (int)infos[i].ssi_ptr);
    SAY(ready(fd, 0));
    raise(SIGUSR1);
    SAY(ready(fd, 0));
    SAY(read(fd, infos, sizeof *infos + 5));
    printf("  signal %d code %d\n", infos[0].ssi_signo, infos[0].ssi_code);
    /* Another mask, edges, and a timer. */
    int poller = epoll_create1(0);
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u32 = 7}}, told;
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
    sigemptyset(&more);
    sigaddset(&more, SIGUSR2);
    sigprocmask(SIG_BLOCK, &more, NULL);
    SAY(signalfd(fd, &more, 0) == fd);
    raise(SIGUSR1);
    SAY(ready(fd, 0));
    raise(SIGUSR2);
    SAY(epoll_wait(poller, &told, 1, -1));
    SAY(epoll_wait(poller, &told, 1, 0));
    SAY(read(fd, infos, sizeof infos));
    printf("  signal %d\n", infos[0].ssi_signo);
    signalfd(fd, &set, 0);
    SAY(read(fd, infos, sizeof infos));
    struct sigevent notify = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value = {.sival_int = 77}};
    timer_t timer;
    SAY(timer_create(CLOCK_MONOTONIC, &notify, &timer));
    struct itimerspec soon = in(10, 0);
    timer_settime(timer, 0, &soon, NULL);
    SAY(ready(fd, -1));
    SAY(read(fd, infos, sizeof infos));
    printf("  signal %d code %d value %d overruns %d\n", infos[0].ssi_signo, infos[0].ssi_code, infos[0].ssi_int, infos[0].ssi_overrun);
    timer_delete(timer);
    /* Waiting for one. */
    fcntl(fd, F_SETFL, 0);
    reader_fd = fd;
    pthread_t thread;
    pthread_create(&thread, NULL, reads, NULL);
    usleep(20000);
    kill(getpid(), SIGUSR1);
    pthread_join(thread, NULL);
    close(fd), close(poller);
}

/* --- Memory with a descriptor. --- */

static void memory(void) {
    puts("memfd:");
    char long_name[300];
    memset(long_name, 'x', 299);
    long_name[299] = 0;
    SAY(memfd_create(long_name, 0));
    long_name[249] = 0;
    int fd = memfd_create(long_name, 0);
    printf("long name %d\n", fd >= 0);
    close(fd);
    SAY(memfd_create("x", 0x40));
    SAY(memfd_create(NULL, 0));
    fd = memfd_create("plain", MFD_CLOEXEC);
    SAY(fcntl(fd, F_GETFD));
    SAY(fcntl(fd, F_GETFL) & O_ACCMODE);
    SAY(fcntl(fd, F_GET_SEALS));
    SAY(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    SAY(fcntl(1, F_GET_SEALS));
    SAY(ftruncate(fd, 10000));
    char path[64], text[64] = {0};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    SAY(readlink(path, text, sizeof text - 1));
    puts(text);
    struct stat status;
    fstat(fd, &status);
    printf("mode %o links %d size %ld\n", status.st_mode, (int)status.st_nlink, (long)status.st_size);
    char *shown = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    strcpy(shown, "written in memory");
    SAY(pread(fd, text, 17, 0));
    puts(text);
    SAY(pwrite(fd, "W", 1, 0));
    puts(shown);
    munmap(shown, 10000);
    int again = open(path, O_RDONLY);
    SAY(read(again, text, 7));
    puts(text);
    SAY(write(again, text, 1));
    SAY(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED);
    close(again), close(fd);
    fd = memfd_create("sealed", MFD_ALLOW_SEALING);
    SAY(fcntl(fd, F_GET_SEALS));
    SAY(fcntl(fd, F_ADD_SEALS, 0x1000));
    SAY(write(fd, "0123456789", 10));
    SAY(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    SAY(ftruncate(fd, 11));
    SAY(write(fd, "x", 1));
    SAY(pwrite(fd, "abc", 3, 8));
    SAY(pwrite(fd, "ab", 2, 8));
    SAY(ftruncate(fd, 9));
    SAY(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
    SAY(ftruncate(fd, 8));
    SAY(ftruncate(fd, 9));
    shown = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    SAY(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    shown[0] = 'Z';
    munmap(shown, 4096);
    SAY(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    SAY(pwrite(fd, "y", 1, 0));
    SAY(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    printf("%s\n", strerror(errno));
    shown = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    printf("%.9s\n", shown);
    SAY(mprotect(shown, 4096, PROT_READ | PROT_WRITE));
    SAY(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
    SAY(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    SAY(fcntl(fd, F_GET_SEALS));
    close(fd);
    fd = memfd_create("future", MFD_ALLOW_SEALING);
    ftruncate(fd, 4096);
    shown = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    SAY(fcntl(fd, F_ADD_SEALS, 16));
    shown[0] = 'Z';
    SAY(pwrite(fd, "y", 1, 0));
    SAY(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    shown = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    SAY(mprotect(shown, 4096, PROT_READ | PROT_WRITE));
    close(fd);
    char *pages = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pages[4096] = pages[5 * 4096] = 1;
    unsigned char there[8];
    SAY(mincore(pages, 8 * 4096, there));
    for (int i = 0; i < 8; i++) printf("%d", there[i] & 1);
    puts("");
    SAY(mincore(pages + 1, 4096, there));
    SAY(mincore(pages, 4096, NULL));
    munmap(pages + 4096, 4096);
    SAY(mincore(pages, 3 * 4096, there));
    SAY(madvise(pages, 4096, 23));
    SAY(madvise(pages, 3 * 4096, 23));
    SAY(madvise(pages + 1, 4096, 22));
    SAY(madvise(pages + 2 * 4096, 4 * 4096, 23));
    SAY(mincore(pages + 2 * 4096, 6 * 4096, there));
    for (int i = 0; i < 6; i++) printf("%d", there[i] & 1);
    puts("");
    char *only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SAY(madvise(only, 4096, 23));
    SAY(madvise(only, 4096, 22));
    struct { uint64_t flags, mode, resolve, more; } how = {O_RDONLY, 0, 0, 0};
    SAY(syscall(SYS_openat2, AT_FDCWD, "/proc/self/stat", &how, 23));
    SAY(syscall(SYS_openat2, AT_FDCWD, "/proc/self/stat", &how, 32) >= 0);
    how.more = 1;
    SAY(syscall(SYS_openat2, AT_FDCWD, "/proc/self/stat", &how, 32));
    how.more = 0, how.mode = 0600;
    SAY(syscall(SYS_openat2, AT_FDCWD, "/proc/self/stat", &how, 24));
    how.mode = 0, how.flags = 1ull << 40;
    SAY(syscall(SYS_openat2, AT_FDCWD, "/proc/self/stat", &how, 24));
    how.flags = 0, how.resolve = 0x1000;
    SAY(syscall(SYS_openat2, AT_FDCWD, "/proc/self/stat", &how, 24));
    how.resolve = 2;
    SAY(syscall(SYS_openat2, AT_FDCWD, "/proc/self/exe", &how, 24));
}

/* --- What a process says of itself. --- */

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
    uint32_t low, high;
};

static void *inherits(void *unused) {
    printf("a thread: policy %d, niceness %d, slack %d\n", sched_getscheduler(0), getpriority(PRIO_PROCESS, 0), prctl(PR_GET_TIMERSLACK));
    return NULL;
}

static void itself(void) {
    puts("prctl:");
    char name[17] = {0};
    int value = 9;
    SAY(prctl(PR_SET_NAME, "a name longer than fifteen"));
    SAY(prctl(PR_GET_NAME, name));
    puts(name);
    SAY(prctl(PR_GET_DUMPABLE));
    SAY(prctl(PR_SET_DUMPABLE, 0));
    SAY(prctl(PR_GET_DUMPABLE));
    SAY(prctl(PR_SET_DUMPABLE, 2));
    SAY(prctl(PR_SET_DUMPABLE, 1));
    SAY(prctl(PR_GET_PDEATHSIG, &value));
    printf("%d\n", value);
    SAY(prctl(PR_SET_PDEATHSIG, SIGHUP));
    SAY(prctl(PR_SET_PDEATHSIG, 65));
    SAY(prctl(PR_GET_PDEATHSIG, &value));
    printf("%d\n", value);
    SAY(prctl(PR_SET_PDEATHSIG, 0));
    SAY(prctl(PR_GET_KEEPCAPS));
    SAY(prctl(PR_SET_KEEPCAPS, 2));
    SAY(prctl(PR_GET_SECCOMP));
    SAY(prctl(PR_GET_TIMERSLACK));
    SAY(prctl(PR_SET_TIMERSLACK, 7));
    SAY(prctl(PR_GET_TIMERSLACK));
    SAY(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    SAY(prctl(PR_GET_NO_NEW_PRIVS, 1, 0, 0, 0));
    SAY(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    SAY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    SAY(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    SAY(prctl(PR_CAPBSET_READ, 100));
    SAY(prctl(PR_GET_CHILD_SUBREAPER, &value));
    printf("%d\n", value);
    SAY(prctl(PR_GET_TSC, &value));
    printf("%d\n", value);
    SAY(prctl(PR_GET_NAME, NULL));
    SAY(prctl(0x7fff));
    SAY(personality(0xffffffff));
    SAY(personality(0x40000));
    SAY(personality(0xffffffff));
    puts("capget:");
    struct { uint32_t version; int pid; } header = {0, 0};
    uint32_t data[6];
    SAY(syscall(SYS_capget, &header, NULL));
    printf("%x\n", header.version);
    header.version = 1;
    SAY(syscall(SYS_capget, &header, data));
    SAY(syscall(SYS_capget, &header, data));
    header.pid = -1;
    SAY(syscall(SYS_capget, &header, data));
    puts("sched:");
    struct sched_param param = {0};
    SAY(sched_getscheduler(0));
    SAY(sched_getscheduler(-1));
    SAY(sched_setscheduler(0, SCHED_BATCH, &param));
    SAY(sched_getscheduler(0));
    SAY(sched_setscheduler(0, 9, &param));
    SAY(sched_setscheduler(0, SCHED_FIFO, &param));
    param.sched_priority = 1;
    SAY(sched_setscheduler(0, SCHED_OTHER, &param));
    SAY(sched_get_priority_max(SCHED_RR));
    struct attributes attributes = {0};
    SAY(syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0));
    printf("size %d policy %d flags %d nice %d priority %d\n", attributes.size, attributes.policy, (int)attributes.flags, attributes.nice,
           attributes.priority);
    SAY(syscall(SYS_sched_getattr, 0, &attributes, 47, 0));
    SAY(syscall(SYS_sched_getattr, 0, &attributes, 56, 1));
    attributes = (struct attributes){.size = 48, .nice = 3};
    SAY(syscall(SYS_sched_setattr, 0, &attributes, 0));
    SAY(getpriority(PRIO_PROCESS, 0));
    attributes.size = 47;
    SAY(syscall(SYS_sched_setattr, 0, &attributes, 0));
    printf("size %d\n", attributes.size);
    attributes = (struct attributes){.size = 48, .policy = 77};
    SAY(syscall(SYS_sched_setattr, 0, &attributes, 0));
    SAY(setpriority(PRIO_PROCESS, 0, 5));
    SAY(getpriority(PRIO_PROCESS, 0));
    SAY(setpriority(PRIO_PROCESS, 0, 100));
    SAY(getpriority(PRIO_PROCESS, 0));
    SAY(getpriority(9, 0));
    pthread_t thread;
    pthread_create(&thread, NULL, inherits, NULL);
    pthread_join(thread, NULL);
}

/* The fields of /proc/self/stat, behind the name, which may have blanks. */
static void proc(void) {
    puts("proc:");
    char text[4096] = {0};
    int fd = open("/proc/self/stat", O_RDONLY);
    read(fd, text, sizeof text - 1);
    close(fd);
    char *rest = strrchr(text, ')');
    printf("pid %d, named %.17s\n", atoi(text) == getpid(), strchr(text, '('));
    int fields = 2;
    for (char *word = strtok(rest + 1, " \n"); word; word = strtok(NULL, " \n")) {
        fields++;
        if (fields == 3) printf("state %s\n", word);
        if (fields == 20) printf("threads %s\n", word);
        if (fields == 23) printf("mapped %d\n", strtoull(word, NULL, 10) > 100000);
        if (fields == 28) {
            int local;
            printf("the stack begins behind this %d\n", strtoull(word, NULL, 10) > (uintptr_t)&local);
        }
    }
    printf("fields %d\n", fields);
    uint64_t pair[2], entry = 0, page = 0;
    int pairs = 0;
    fd = open("/proc/self/auxv", O_RDONLY);
    while (read(fd, pair, 16) == 16) {
        pairs++;
        if (pair[0] == 9) entry = pair[1];
        if (pair[0] == 6) page = pair[1];
        if (pair[0] == 0) break;
    }
    close(fd);
    extern char _start[];
    printf("auxv: entry %d, page %ld, more %d\n", entry == (uintptr_t)_start, (long)page, pairs > 10);
    snprintf(text, sizeof text, "/proc/self/task/%d/comm", getpid());
    fd = open(text, O_RDWR);
    SAY(write(fd, "renamed by file\n", 15));
    close(fd);
    char name[17] = {0};
    prctl(PR_GET_NAME, name);
    puts(name);
    SAY(open("/proc/self/task/1/comm", O_RDONLY));
    struct stat status;
    SAY(stat("/proc/self/task", &status));
    printf("%o\n", status.st_mode);
    const char *const texts[] = {"/proc/stat", "/proc/meminfo", "/proc/cpuinfo", "/proc/loadavg", "/proc/uptime", "/proc/self/limits",
                                 "/proc/self/statm", "/proc/self/status", "/proc/sys/vm/max_map_count", "/proc/sys/net/core/somaxconn",
                                 "/proc/self/mountinfo", "/proc/filesystems", "/sys/devices/system/cpu/online"};
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        fd = open(texts[i], O_RDONLY);
        printf("%s %d\n", texts[i], read(fd, text, sizeof text) > 0);
        close(fd);
    }
    int ends[2];
    pipe(ends);
    snprintf(text, sizeof text, "/proc/self/fd/%d", ends[0]);
    char link[64] = {0};
    SAY(readlink(text, link, 6));
    puts(link);
    close(ends[0]), close(ends[1]);
}

static void rest(void) {
    puts("rest:");
    struct timespec soon = {0, 1000000}, left;
    SAY(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &soon, NULL));
    volatile int stop = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, spins, (void *)&stop);
    SAY(clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &soon, &left));
    clockid_t of_thread;
    SAY(pthread_getcpuclockid(thread, &of_thread));
    SAY(clock_nanosleep(of_thread, 0, &soon, NULL));
    stop = 1;
    pthread_join(thread, NULL);
    SAY(clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, TIMER_ABSTIME, &soon, NULL));
    int ends[2];
    pipe(ends);
    char byte;
    struct iovec one = {&byte, 1};
    SAY(syscall(SYS_preadv2, ends[0], &one, 1, -1L, -1L, 0x40000000));
    SAY(syscall(SYS_preadv2, ends[0], &one, 1, 0, 0, 0));
    write(ends[1], "x", 1);
    SAY(syscall(SYS_preadv2, ends[0], &one, 1, -1L, -1L, 1));
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    timers();
    signals();
    memory();
    itself();
    proc();
    rest();
    return 0;
}
