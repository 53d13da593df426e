/* File calls, each answer printed: the host and a node must print the same. Works in the current directory. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHOW(call) do { errno = 0; long result = (long)(call); \
    printf("%-50s = %ld %s\n", #call, result, result < 0 ? strerrorname_np(errno) : ""); } while (0)
/* The same where the answer itself (a descriptor, a length on another file system) does not matter. */
#define WORKS(call) do { errno = 0; printf("%-50s : %s\n", #call, (call) < 0 ? strerrorname_np(errno) : "works"); } while (0)

static void show(const char *path) {
    struct stat s;
    if (lstat(path, &s)) { printf("lstat %s: %s\n", path, strerrorname_np(errno)); return; }
    /* The time of a change made just now differs from run to run; one that was set does not. */
    int was_set = s.st_mtim.tv_sec < 1500000000;
    printf("lstat %s: mode %o links %lu size %ld mtime %ld.%09ld\n", path, s.st_mode, (unsigned long)s.st_nlink,
           (long)s.st_size, was_set ? (long)s.st_mtim.tv_sec : 0, was_set ? s.st_mtim.tv_nsec : 0);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int main(void) {
    char buffer[256];
    umask(022);
    WORKS(mkdir("work", 0777));
    SHOW(mkdir("work", 0777));
    SHOW(chdir("work"));
    char *cwd = getcwd(buffer, sizeof buffer);
    printf("cwd ends in %s\n", cwd ? strrchr(cwd, '/') : "?");
    SHOW(getcwd(buffer, 2));

    int fd = open("a", O_RDWR | O_CREAT | O_EXCL, 0666);
    printf("open %d\n", fd);
    SHOW(open("a", O_RDWR | O_CREAT | O_EXCL, 0666));
    SHOW(open("missing", O_RDONLY));
    SHOW(open("missing/x", O_RDONLY));
    SHOW(open("a/x", O_RDONLY));
    SHOW(open("a", O_RDONLY | O_DIRECTORY));
    SHOW(open(".", O_WRONLY));
    SHOW(write(fd, "hello, world", 12));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(fd, -5, SEEK_END));
    SHOW(read(fd, buffer, sizeof buffer));
    SHOW(read(fd, buffer, sizeof buffer));
    SHOW(lseek(fd, -1, SEEK_SET));
    SHOW(lseek(fd, 0, 99));
    SHOW(pwrite(fd, "HELLO", 5, 0));
    SHOW(pwrite(fd, "far", 3, 10000));
    SHOW(pread(fd, buffer, 5, 0));
    printf("%.5s\n", buffer);
    SHOW(pread(fd, buffer, 5, -1));
    SHOW(pread(fd, buffer, 5, 20000));
    SHOW(lseek(fd, 0, SEEK_CUR));
    struct iovec out[3] = {{"ab", 2}, {"", 0}, {"cdef", 4}};
    SHOW(lseek(fd, 100, SEEK_SET));
    SHOW(writev(fd, out, 3));
    char left[3] = {0}, right[8] = {0};
    struct iovec in[2] = {{left, 2}, {right, 4}};
    SHOW(lseek(fd, 100, SEEK_SET));
    SHOW(readv(fd, in, 2));
    printf("%s %s\n", left, right);
    SHOW(writev(fd, out, -1));
    SHOW(ftruncate(fd, 50));
    SHOW(truncate("a", 60));
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(fsync(fd));
    SHOW(fdatasync(fd));
    SHOW(fchmod(fd, 0640));
    show("a");
    SHOW(chmod("a", 0600));
    struct timespec times[2] = {{1000000000, 5}, {1234567890, 123456789}};
    SHOW(futimens(fd, times));
    show("a");
    SHOW(utimensat(AT_FDCWD, "missing", times, 0));

    int copy = dup(fd);
    printf("dup %d\n", copy);
    SHOW(lseek(copy, 7, SEEK_SET));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(dup2(fd, 100));
    SHOW(dup3(fd, fd, 0));
    SHOW(dup2(fd, -1));
    SHOW(dup2(77, 78));
    SHOW(fcntl(100, F_GETFD));
    SHOW(fcntl(100, F_SETFD, FD_CLOEXEC));
    SHOW(fcntl(100, F_GETFD));
    SHOW(fcntl(fd, F_DUPFD, 50));
    SHOW(fcntl(fd, F_GETFL) & O_ACCMODE);
    SHOW(fcntl(fd, F_SETFL, O_APPEND));
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(write(fd, "appended", 8));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(close(copy));
    SHOW(close(copy));
    SHOW(close(100));
    SHOW(close(-1));
    SHOW(read(-1, buffer, 1));
    SHOW(write(open("a", O_RDONLY), "x", 1));
    SHOW(read(open("a", O_WRONLY), buffer, 1));
    SHOW(read(open(".", O_RDONLY), buffer, 1));
    SHOW(read(fd, NULL, 0));
    SHOW(read(fd, (void *)8, 1) >= 0 ? -2 : errno == EFAULT);
    SHOW(open((char *)8, O_RDONLY));

    SHOW(link("a", "b"));
    SHOW(link("a", "b"));
    SHOW(symlink("a", "s"));
    SHOW(symlink("nowhere", "dangling"));
    SHOW(symlink("loop", "loop"));
    SHOW(readlink("s", buffer, sizeof buffer));
    SHOW(readlink("a", buffer, sizeof buffer));
    SHOW(open("loop", O_RDONLY));
    SHOW(open("s", O_RDONLY | O_NOFOLLOW));
    SHOW(open("dangling", O_RDONLY));
    show("s");
    show("b");
    SHOW(access("a", R_OK | W_OK));
    SHOW(access("missing", F_OK));
    SHOW(faccessat(AT_FDCWD, "s", F_OK, AT_SYMLINK_NOFOLLOW));
    SHOW(rename("b", "c"));
    SHOW(rename("missing", "c"));
    SHOW(mkdir("d", 0700));
    SHOW(rename("c", "d/c"));
    SHOW(renameat2(AT_FDCWD, "a", AT_FDCWD, "d/c", RENAME_NOREPLACE));
    SHOW(rmdir("d"));
    SHOW(rmdir("a"));
    SHOW(unlink("d"));
    SHOW(unlink("missing"));
    int directory = open("d", O_RDONLY | O_DIRECTORY);
    SHOW(mkdirat(directory, "e", 0755));
    SHOW(openat(directory, "c", O_RDONLY) >= 0);
    SHOW(unlinkat(directory, "e", 0));
    SHOW(unlinkat(directory, "e", AT_REMOVEDIR));
    SHOW(fstatat(directory, "c", &(struct stat){0}, 0));
    SHOW(fstatat(directory, "", &(struct stat){0}, AT_EMPTY_PATH));
    SHOW(fstatat(directory, "", &(struct stat){0}, 0));
    SHOW(fchdir(directory));
    SHOW(access("c", F_OK));
    SHOW(chdir(".."));
    SHOW(chdir("a"));
    struct statx x;
    SHOW(statx(AT_FDCWD, "a", 0, STATX_BASIC_STATS, &x));
    printf("statx size %llu mode %o\n", (unsigned long long)x.stx_size, x.stx_mode);
    struct statfs f;
    SHOW(statfs(".", &f));
    SHOW(fstatfs(fd, &f));

    char *names[64];
    int count = 0;
    DIR *listing = opendir(".");
    for (struct dirent *entry; (entry = readdir(listing)) != NULL && count < 64;) {
        snprintf(buffer, sizeof buffer, "%s type %d", entry->d_name, entry->d_type);
        names[count++] = strdup(buffer);
    }
    rewinddir(listing);
    int again = 0;
    while (readdir(listing)) again++;
    closedir(listing);
    qsort(names, count, sizeof *names, by_name);
    for (int i = 0; i < count; i++) printf("entry %s\n", names[i]);
    printf("and after rewinding %d\n", again);

    struct pollfd polled[2] = {{fd, POLLIN | POLLOUT, 0}, {-1, POLLIN, 0}};
    SHOW(poll(polled, 2, 0));
    printf("polled %x %x\n", polled[0].revents, polled[1].revents);
    polled[0].fd = 999;
    SHOW(poll(polled, 1, 0));
    printf("polled %x\n", polled[0].revents);

    static char big[300000];
    for (size_t i = 0; i < sizeof big; i++) big[i] = (char)(i * 7 + i / 251);
    int large = open("large", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SHOW(write(large, big, sizeof big));
    static char back[sizeof big + 10];
    SHOW(pread(large, back, sizeof back, 0));
    printf("same %d\n", memcmp(big, back, sizeof big) == 0);
    SHOW(pread(large, back, 200000, 150001));
    printf("same %d\n", memcmp(big + 150001, back, sizeof big - 150001) == 0);

    const char *remove[] = {"a", "s", "dangling", "loop", "d/c", "large"};
    for (int i = 0; i < 6; i++) WORKS(unlink(remove[i]));
    SHOW(rmdir("d"));
    SHOW(chdir(".."));
    SHOW(rmdir("work"));
    return 0;
}
