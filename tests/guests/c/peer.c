/* Init of a Linux machine that `cargo xtask bench net` holds beside a node: loads the drivers of its network card, gives it
   its address, and runs a measuring program on it. Two such machines are the two ranks of an MPI program if it is one:
   this is then its process manager, too, and speaks with the one of the other machine.
   Arguments: which of the two this is, `mpi` or `plain`, the program and its arguments. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT 5000
#define LINE 1024

static const char *const modules[] = {
    "virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "failover", "net_failover",
    "virtio_net",
};

static int number;

/* A machine's init must not end: it says why and stops the machine. */
static void stop(const char *why) {
    if (why) printf("peer %d: %s: %s\n", number, why, strerror(errno));
    fflush(stdout);
    sync();
    reboot(RB_AUTOBOOT);
}

static struct sockaddr_in address(int of, int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(0x0a800001 + of);
    return at;
}

static void load(const char *module) {
    char name[64];
    snprintf(name, sizeof name, "/%s.ko", module);
    int file = open(name, O_RDONLY);
    if (file < 0 || syscall(SYS_finit_module, file, "", 0)) stop(module);
    close(file);
}

/* Addresses as the nodes of a job have them; the other machine's Ethernet address follows from its own and is not asked for. */
static void configure(const char *card) {
    int control = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request = {0};
    strcpy(request.ifr_name, card);
    struct sockaddr_in at = address(number, 0);
    memcpy(&request.ifr_addr, &at, sizeof at);
    if (ioctl(control, SIOCSIFADDR, &request)) stop("address");
    ioctl(control, SIOCGIFFLAGS, &request);
    request.ifr_flags |= IFF_UP;
    if (ioctl(control, SIOCSIFFLAGS, &request)) stop("up");
    struct arpreq arp = {.arp_flags = ATF_PERM | ATF_COM};
    at = address(1 - number, 0);
    memcpy(&arp.arp_pa, &at, sizeof at);
    arp.arp_ha.sa_family = ARPHRD_ETHER;
    memcpy(arp.arp_ha.sa_data, (unsigned char[]){2, 0, 10, 64, 0, 2 - number}, 6);
    strcpy(arp.arp_dev, card);
    if (ioctl(control, SIOCSARP, &arp)) stop("arp");
    close(control);
}

/* The connection between the two machines: number 1 calls until number 0 listens. */
static int meet(void) {
    struct sockaddr_in at = address(0, PORT);
    if (number == 0) {
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1)) stop("listen");
        return accept(listener, NULL, NULL);
    }
    for (;;) {
        int call = socket(AF_INET, SOCK_STREAM, 0);
        if (!connect(call, (struct sockaddr *)&at, sizeof at)) return call;
        close(call);
        usleep(50000);
    }
}

/* Puts what comes after `name=` in a line into `value`. */
static void field(const char *line, const char *name, char *value) {
    const char *at = strstr(line, name);
    *value = 0;
    if (at) sscanf(at + strlen(name), "%1000[^ \n]", value);
}

/* Serves PMI to the one rank here. In a barrier both sides send what their rank has put last, its address. */
static void serve(int rank, int peer) {
    static char line[LINE], key[LINE], put_key[LINE], put_value[LINE], theirs[2 * LINE], ours[2 * LINE];
    FILE *from = fdopen(rank, "r");
    while (fgets(line, sizeof line, from)) {
        char cmd[LINE];
        field(line, "cmd=", cmd);
        if (!strcmp(cmd, "init")) dprintf(rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
        else if (!strcmp(cmd, "get_maxes")) dprintf(rank, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=900\n");
        else if (!strcmp(cmd, "get_appnum")) dprintf(rank, "cmd=appnum appnum=0\n");
        else if (!strcmp(cmd, "get_my_kvsname")) dprintf(rank, "cmd=my_kvsname kvsname=k0\n");
        else if (!strcmp(cmd, "put")) {
            field(line, " key=", put_key);
            field(line, " value=", put_value);
            dprintf(rank, "cmd=put_result rc=0 msg=success\n");
        } else if (!strcmp(cmd, "barrier_in")) {
            memcpy(ours, put_key, LINE);
            memcpy(ours + LINE, put_value, LINE);
            if (write(peer, ours, sizeof ours) != sizeof ours) stop("barrier");
            if (recv(peer, theirs, sizeof theirs, MSG_WAITALL) != sizeof theirs) stop("barrier");
            dprintf(rank, "cmd=barrier_out\n");
        } else if (!strcmp(cmd, "get")) {
            field(line, " key=", key);
            const char *found = !strcmp(key, put_key) ? put_value : !strcmp(key, theirs) ? theirs + LINE : NULL;
            if (!strcmp(key, "PMI_process_mapping")) found = "(vector,(0,2,1))";
            dprintf(rank, "cmd=get_result rc=%d msg=%s value=%s\n", found ? 0 : -1, found ? "success" : "unknown",
                    found ? found : "unknown");
        } else if (!strcmp(cmd, "finalize")) dprintf(rank, "cmd=finalize_ack\n");
        else stop(line);
    }
}

/* Runs the program; as rank `number` of two if it is one of MPI. */
static void run(char **command, int mpi, int peer) {
    int pair[2], status = 0;
    char text[16];
    struct sockaddr_in own = address(number, 0);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) stop("socketpair");
    pid_t child = fork();
    if (child == 0) {
        close(pair[0]);
        setenv("COPPICE_RANK", number ? "1" : "0", 1);
        if (mpi) {
            snprintf(text, sizeof text, "%d", pair[1]);
            setenv("PMI_FD", text, 1);
            setenv("PMI_RANK", number ? "1" : "0", 1);
            setenv("PMI_SIZE", "2", 1);
            setenv("MPICH_INTERFACE_HOSTNAME", inet_ntoa(own.sin_addr), 1);
        }
        execv(command[0], command);
        stop(command[0]);
    }
    close(pair[1]);
    if (mpi) serve(pair[0], peer);
    if (waitpid(child, &status, 0) != child || status) printf("peer %d: status %#x\n", number, status);
}

int main(int argc, char **argv) {
    if (argc < 4) stop("arguments");
    number = atoi(argv[1]);
    mkdir("/dev", 0755);
    mount("devtmpfs", "/dev", "devtmpfs", 0, "");
    for (unsigned i = 0; i < sizeof modules / sizeof *modules; i++) load(modules[i]);
    configure("eth0");
    int peer = meet();
    run(argv + 3, !strcmp(argv[2], "mpi"), peer);
    /* Neither machine stops before both are done. */
    char done = 0;
    if (write(peer, &done, 1) != 1 || read(peer, &done, 1) != 1) stop("end");
    stop(NULL);
}
