/* What nodes are called: the own name by every way to ask, then the address of each name in the arguments, and the name of
   that address. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

static void look_up(const char *name) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int error = getaddrinfo(name, "80", &hints, &found);
    if (error) {
        printf("%s: error %d\n", name, error);
        return;
    }
    for (struct addrinfo *at = found; at; at = at->ai_next) {
        char address[64] = "", back[256] = "";
        struct sockaddr_in *of = (struct sockaddr_in *)at->ai_addr;
        inet_ntop(AF_INET, &of->sin_addr, address, sizeof address);
        error = getnameinfo(at->ai_addr, at->ai_addrlen, back, sizeof back, NULL, 0, NI_NAMEREQD);
        printf("%s: %s:%d is %s\n", name, address, ntohs(of->sin_port), error ? "unknown" : back);
    }
    freeaddrinfo(found);
}

int main(int argc, char **argv) {
    char name[256] = "", file[256] = "";
    struct utsname system;
    if (gethostname(name, sizeof name) || uname(&system)) return 1;
    FILE *text = fopen("/etc/hostname", "r");
    if (!text || !fgets(file, sizeof file, text)) return 2;
    file[strcspn(file, "\n")] = 0;
    printf("I am %s, %s, %s\n", name, system.nodename, file);
    look_up(name);
    for (int i = 1; i < argc; i++) look_up(argv[i]);
    return 0;
}
