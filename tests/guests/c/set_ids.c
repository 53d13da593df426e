/* Tries every way to leave a file with set-user-ID, set-group-ID or a device on the host. Says what each call answered;
   the modes are looked at by who started it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define SAY(call) do { errno = 0; long result = (long)(call); \
    printf("%s: %s\n", #call, result < 0 ? strerrorname_np(errno) : "done"); } while (0)

#define FCHMODAT2 452
#define OPENAT2 437

/* What chmod and its kin leave of the two bits. */
static void saw(const char *path) {
    struct stat s;
    if (stat(path, &s)) { printf("%s: %s\n", path, strerrorname_np(errno)); return; }
    printf("%s has %o\n", path, s.st_mode & 06000);
}

int main(void) {
    umask(0);
    SAY(open("opened", O_CREAT | O_RDWR, 06755));
    SAY(open("opened_alone", O_CREAT | O_EXCL | O_WRONLY, 07755));
    SAY(creat("created", 06755));
    struct { unsigned long long flags, mode, resolve; } how = {O_CREAT | O_RDWR, 06755, 0};
    SAY(syscall(OPENAT2, AT_FDCWD, "opened2", &how, sizeof how));
    SAY(mkdir("dir", 06755));
    SAY(mkdirat(AT_FDCWD, "dir2", 06755));
    int nameless = open(".", O_TMPFILE | O_RDWR, 06755);
    if (nameless >= 0) {
        fchmod(nameless, 06755);
        SAY(linkat(nameless, "", AT_FDCWD, "nameless", AT_EMPTY_PATH));
        fchmod(nameless, 06755);
    }
    int file = open("changed", O_CREAT | O_RDWR, 0755);
    SAY(chmod("changed", 06755));
    saw("changed");
    SAY(fchmod(file, 06755));
    saw("changed");
    SAY(fchmodat(AT_FDCWD, "changed", 06755, 0));
    saw("changed");
    SAY(syscall(FCHMODAT2, AT_FDCWD, "changed", 06755, 0));
    saw("changed");
    SAY(fchown(file, geteuid(), getegid()));
    SAY(chmod("dir", 06755));
    saw("dir");
    /* By other names, and with another file's bits. */
    SAY(link("changed", "linked"));
    SAY(symlink("changed", "pointed"));
    SAY(chmod("linked", 06755));
    SAY(chmod("pointed", 06755));
    SAY(rename("linked", "renamed"));
    SAY(chmod("renamed", 06755));
    SAY(chmod("theirs", 06755));
    saw("theirs");
    int into = open("inherits/made", O_CREAT | O_RDWR, 06755);
    SAY(fchmod(into, 06755));
    SAY(mkdir("inherits/dir", 0755));
    /* Devices, FIFOs and sockets. */
    SAY(mknod("device", S_IFCHR | 06666, makedev(1, 3)));
    SAY(mknod("disk", S_IFBLK | 0666, makedev(8, 0)));
    SAY(mknodat(AT_FDCWD, "fifo", S_IFIFO | 0666, 0));
    SAY(mknod("plain", S_IFREG | 06755, 0));
    SAY(syscall(SYS_renameat2, AT_FDCWD, "created", AT_FDCWD, "created2", 4));
    return 0;
}
