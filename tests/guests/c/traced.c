/* Calls of many kinds, one after the other, whose arguments and results are the same wherever it runs. With an argument:
 * looks for a file of that name every 20 ms, and ends when there is one. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void handle(int signal) { (void)signal; }

static void inform(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    (void)context;
}

static void pause_for(long nanoseconds) {
    struct timespec time = {0, nanoseconds};
    nanosleep(&time, 0);
}

static int wait_for(const char *name) {
    while (access(name, F_OK) != 0) {
        pause_for(20000000);
    }
    puts("found it");
    return 0;
}

static void files(void) {
    char bytes[100];
    mkdir("traced-dir", 0755);
    int file = open("traced-dir/file", O_RDWR | O_CREAT | O_TRUNC, 0640);
    write(file, "a line\n\tand \"more\" \\ of it\001\0012\n", 30);
    struct iovec pieces[2] = {{"one", 3}, {"and quite a few more bytes than are shown", 41}};
    writev(file, pieces, 2);
    lseek(file, -5, SEEK_END);
    read(file, bytes, sizeof bytes);
    lseek(file, 2, SEEK_SET);
    struct iovec rooms[3] = {{bytes, 4}, {bytes + 10, 60}, {bytes + 80, 20}};
    readv(file, rooms, 3);
    preadv(file, rooms, 2, 70);
    pread(file, bytes, 40, 0);
    pwrite(file, "x", 1, 200);
    ftruncate(file, 5000);
    fsync(file);
    struct stat status;
    fstat(file, &status);
    void *map = mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, 4096);
    munmap(map, 4096);
    int other = fcntl(file, F_DUPFD_CLOEXEC, 20);
    fcntl(other, F_GETFD);
    fcntl(other, F_SETFD, 0);
    dup2(other, 30);
    close(30);
    close(other);
    close(file);
    rename("traced-dir/file", "traced-dir/other");
    access("traced-dir/other", R_OK | W_OK);
    chmod("traced-dir/other", 0600);
    symlink("other", "traced-dir/link");
    readlink("traced-dir/link", bytes, sizeof bytes);
    int directory = open("traced-dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    openat(directory, "nothing", O_WRONLY);
    unlinkat(directory, "link", 0);
    close(directory);
    unlink("traced-dir/other");
    rmdir("traced-dir");
    rmdir("traced-dir");
    umask(077);
    umask(022);
}

static void channels(void) {
    char bytes[40] = {0};
    int ends[2], pair[2];
    pipe(ends);
    write(ends[1], "through a pipe", 14);
    read(ends[0], bytes, sizeof bytes);
    struct pollfd asked = {ends[0], POLLIN, 0};
    poll(&asked, 1, 0);
    int epoll = epoll_create1(EPOLL_CLOEXEC), event = eventfd(3, EFD_NONBLOCK | EFD_CLOEXEC);
    struct epoll_event wanted = {EPOLLIN, {0}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wanted);
    struct epoll_event found[4];
    epoll_wait(epoll, found, 4, -1);
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
    send(pair[0], "a message", 9, MSG_NOSIGNAL);
    recv(pair[1], bytes, sizeof bytes, MSG_DONTWAIT);
    recv(pair[1], bytes, sizeof bytes, MSG_DONTWAIT);
    shutdown(pair[0], SHUT_WR);
    for (int file = 3; file < 9; file++) {
        close(file);
    }
    close(77);
}

static void signals(void) {
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};
    action.sa_sigaction = inform;
    sigaddset(&action.sa_mask, SIGTERM);
    sigaction(SIGUSR2, &action, 0);
    signal(SIGUSR1, handle);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR2);
    /* One that has a number only; the C libraries call the first of them by different names. */
    signal(40, handle);
    raise(40);
    signal(SIGINT, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, 0);
    kill(getpid(), SIGUSR1);
    sigpending(&set);
    sigprocmask(SIG_SETMASK, &set, &set);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        return wait_for(argv[1]);
    }
    files();
    channels();
    signals();
    pause_for(1000000);
    void *memory = mmap(0, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mprotect(memory, 4096, PROT_READ | PROT_WRITE);
    madvise(memory, 4096, MADV_DONTNEED);
    munmap(memory, 65536);
    chdir("/nowhere/at/all");
    puts("done");
    return 3;
}
