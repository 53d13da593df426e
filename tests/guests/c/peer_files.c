/* Init of a Linux machine that `cargo xtask bench io` holds beside a node: loads drivers, mounts a file system of the host,
   and runs a measuring program in it. Arguments: the drivers, with commas between them; the machine's address, or `-`; what
   to mount: type, source and options; the program and its arguments. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often a server that does not answer yet is asked, and the pause in between. */
#define MOUNTS 100
#define PAUSE_US 100000

/* A machine's init must not end: it says why and stops the machine. */
static void stop(const char *why) {
    if (why) printf("peer: %s: %s\n", why, strerror(errno));
    fflush(stdout);
    sync();
    reboot(RB_AUTOBOOT);
}

static void load(const char *module) {
    char name[64];
    snprintf(name, sizeof name, "/%s.ko", module);
    int file = open(name, O_RDONLY);
    if (file < 0 || syscall(SYS_finit_module, file, "", 0)) stop(module);
    close(file);
}

static void configure(const char *card, const char *address) {
    int control = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request = {0};
    strcpy(request.ifr_name, card);
    struct sockaddr_in *at = (struct sockaddr_in *)&request.ifr_addr;
    at->sin_family = AF_INET;
    if (!inet_aton(address, &at->sin_addr) || ioctl(control, SIOCSIFADDR, &request)) stop("address");
    if (ioctl(control, SIOCGIFFLAGS, &request)) stop("flags");
    request.ifr_flags |= IFF_UP;
    if (ioctl(control, SIOCSIFFLAGS, &request)) stop("up");
    close(control);
}

int main(int argc, char **argv) {
    if (argc < 7) stop("arguments");
    mkdir("/dev", 0755);
    mkdir("/files", 0755);
    mount("devtmpfs", "/dev", "devtmpfs", 0, "");
    for (char *module = strtok(argv[1], ","); module; module = strtok(NULL, ",")) load(module);
    if (strcmp(argv[2], "-")) configure("eth0", argv[2]);
    for (int tried = 1; mount(argv[4], "/files", argv[3], 0, argv[5]); tried++) {
        if (tried == MOUNTS) stop("mount");
        usleep(PAUSE_US);
    }
    if (chdir("/files")) stop("chdir");
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        execv(argv[6], argv + 6);
        stop(argv[6]);
    }
    if (waitpid(child, &status, 0) != child || status) printf("peer: status %#x\n", status);
    if (chdir("/") || umount("/files")) stop("umount");
    stop(NULL);
}
