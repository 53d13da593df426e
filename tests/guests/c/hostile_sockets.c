/* Wants what is not its own, and more than there is: `hostile_sockets forbidden ADDRESS…` calls at the cluster's ports,
   `hostile_sockets descriptors|connections|peer ADDRESS|memory` takes all there is of something. Prints what it was told. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static struct sockaddr_in name(const char *address, int port) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_aton(address, &name.sin_addr);
    return name;
}

static int call(const char *address, int port, int how) {
    struct sockaddr_in there = name(address, port);
    int s = socket(AF_INET, SOCK_STREAM | how, 0);
    int result = connect(s, (void *)&there, sizeof there) == 0 ? 0 : errno;
    close(s);
    return result;
}

static int forbidden(int count, char **addresses) {
    int refused = 0, others = 0;
    for (int again = 0; again < 50; again++) {
        for (int i = 0; i < count; i++) {
            for (int port = 7001; port <= 7003; port++) {
                for (int how = 0; how <= SOCK_NONBLOCK; how += SOCK_NONBLOCK) {
                    if (call(addresses[i], port, how) == ECONNREFUSED)
                        refused++;
                    else
                        others++;
                }
            }
        }
    }
    printf("refused %d, others %d\n", refused, others);
    for (int port = 7001; port <= 7004; port++) {
        struct sockaddr_in here = name("0.0.0.0", port);
        int s = socket(AF_INET, SOCK_STREAM, 0);
        printf("bind: %s\n", bind(s, (void *)&here, sizeof here) ? strerror(errno) : "done");
        close(s);
    }
    return 0;
}

/* Takes descriptors until there are no more, gives them back, and does so again. */
static int descriptors(void) {
    static int all[5000];
    for (int again = 0; again < 20; again++) {
        int count = 0;
        while ((all[count] = socket(AF_INET, SOCK_STREAM, 0)) >= 0)
            count++;
        int why = errno;
        if (again == 19)
            printf("%s sockets, then: %s\n", count > 1000 ? "many" : "few", strerror(why));
        while (count > 0)
            close(all[--count]);
    }
    return 0;
}

/* Connections to itself, all full of bytes that nobody reads. */
static int connections(void) {
    static char bytes[65536];
    struct sockaddr_in here = name("127.0.0.1", 5000);
    int listener = socket(AF_INET, SOCK_STREAM, 0), count = 0, why = 0;
    if (bind(listener, (void *)&here, sizeof here) || listen(listener, 5000))
        return 1;
    for (;; count++) {
        int one = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (one < 0 || connect(one, (void *)&here, sizeof here)) {
            why = errno;
            break;
        }
        int other = accept4(listener, 0, 0, SOCK_NONBLOCK);
        if (other < 0) {
            why = errno;
            break;
        }
        while (write(one, bytes, sizeof bytes) > 0 || write(other, bytes, sizeof bytes) > 0)
            ;
        if (errno != EAGAIN)
            why = errno;
    }
    printf("%s connections, then: %s\n", count > 400 ? "many" : "few", strerror(why));
    return 0;
}

/* Connections that nobody wants: the other node's rank ends at once. */
static int peer(const char *address) {
    int count = 0, why = 0;
    struct sockaddr_in there = name(address, 5000);
    if (strcmp(getenv("COPPICE_RANK"), "0"))
        return 0;
    for (;; count++) {
        int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (s < 0 || (connect(s, (void *)&there, sizeof there) && errno != EINPROGRESS)) {
            why = errno;
            break;
        }
    }
    printf("%s connections, then: %s\n", count > 900 ? "many" : "few", strerror(why));
    return 0;
}

/* Eats all memory but a little, and then wants sockets. */
static int memory(void) {
    struct sysinfo info;
    while (sysinfo(&info) == 0 && info.freeram * info.mem_unit > (3 << 20)) {
        char *page = mmap(0, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            break;
        memset(page, 1, 1 << 18);
    }
    struct sockaddr_in here = name("127.0.0.1", 5000);
    int listener = socket(AF_INET, SOCK_STREAM, 0), count = 0, why = 0;
    if (bind(listener, (void *)&here, sizeof here) || listen(listener, 5000))
        return 1;
    for (;; count++) {
        int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (s < 0 || connect(s, (void *)&here, sizeof here)) {
            why = errno;
            break;
        }
    }
    if (count < 400 && (why == ENOBUFS || why == ENOMEM))
        printf("a few, then there is no memory\n");
    else
        printf("%d, then: %s\n", count, strerror(why));
    return 0;
}

int main(int argc, char **argv) {
    if (strcmp(argv[1], "forbidden") == 0)
        return forbidden(argc - 2, argv + 2);
    if (strcmp(argv[1], "descriptors") == 0)
        return descriptors();
    if (strcmp(argv[1], "connections") == 0)
        return connections();
    if (strcmp(argv[1], "peer") == 0)
        return peer(argv[2]);
    return memory();
}
