/* Says what comes to its ports until a datagram says "end". With an argument, it computes instead while things
   come, and goes when its standard input ends. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void say(const char *what, const char *detail) {
    char line[128];
    int length = snprintf(line, sizeof line, "%s%s\n", what, detail);
    if (write(1, line, (size_t)length) != length) _exit(1);
}

int main(int argc, char **argv) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(6000)};
    int streams = socket(AF_INET, SOCK_STREAM, 0), datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(streams, (void *)&here, sizeof here) || listen(streams, 9)) return 1;
    here.sin_port = htons(6001);
    if (bind(datagrams, (void *)&here, sizeof here)) return 1;
    say("ready", "");
    if (argc > 1) {
        for (volatile unsigned i = 0; i < 100000000; i++) {}
        say("computed", "");
        char more;
        return read(0, &more, 1) != 0;
    }
    for (;;) {
        struct pollfd both[2] = {{streams, POLLIN, 0}, {datagrams, POLLIN, 0}};
        if (poll(both, 2, -1) < 1) return 1;
        if (both[0].revents && accept(streams, 0, 0) >= 0) say("connection", "");
        if (both[1].revents) {
            char text[64] = "";
            if (recv(datagrams, text, sizeof text - 1, 0) < 0) return 1;
            say("datagram ", text);
            if (strcmp(text, "end") == 0) return 0;
        }
    }
}
