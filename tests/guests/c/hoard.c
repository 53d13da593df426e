/* Takes of everything that the kernel keeps for a program until it gives no more, holds all of it, and says what it was
   refused with. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static int refused(const char *what, int made) {
    int expected = errno == ENOMEM || errno == EMFILE || errno == ENOBUFS || errno == ENOSPC;
    printf("%s: %s\n", what, made < 1 ? "not one" : expected ? "refused in time" : strerror(errno));
    return made >= 1 && expected ? 0 : 1;
}

int main(void) {
    int bad = 0, made = 0, ends[2];
    /* Every second page has other rights, so that no two are one area. */
    while (mmap(NULL, 4096, made & 1, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) made++;
    bad += refused("mappings", made);
    /* Room for what the library maps. */
    munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
    for (made = 0; made < 200 && pipe(ends) == 0; made++) {
        char bytes[4096] = {1};
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        while (write(ends[1], bytes, sizeof bytes) > 0) {}
    }
    if (made < 200) bad += refused("pipes", made);
    for (made = 0; made < 200 && socket(AF_INET, SOCK_STREAM, 0) >= 0; made++) {}
    if (made > 0 && made < 200) bad += refused("sockets", made);
    int poller = epoll_create1(0);
    for (made = 0; made < 100; made++) {
        int counter = eventfd(0, 0);
        struct epoll_event event = {EPOLLIN, {.fd = counter}};
        if (counter < 0 || (poller >= 0 && epoll_ctl(poller, EPOLL_CTL_ADD, counter, &event) != 0)) break;
    }
    for (made = 0; open("/dev/null", O_RDONLY) >= 0;) made++;
    if (errno != ENOMEM && errno != EMFILE) bad++;
    puts(bad ? "bad" : "good");
    fflush(stdout);
    /* Held until all have come as far. */
    char byte;
    while (read(0, &byte, 1) > 0) {}
    return bad ? 1 : 0;
}
