/* What getifaddrs(3) tells, and what netlink sockets answer.

   Without arguments: what is the same wherever it runs, for a comparison with the host. "all": every interface that has
   an address of IPv4, a line each. "again": asks until its input ends, and says so if an answer ever changes. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* musl's compiler has no headers of the kernel's. */
#if __has_include(<linux/rtnetlink.h>)
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#define HAS_NETLINK
#endif

/* What both systems tell of an interface: multicast is not for jobs. */
#define FLAGS (IFF_UP | IFF_LOOPBACK | IFF_BROADCAST | IFF_RUNNING)

static void text_of(char *text, size_t room, const struct sockaddr *name) {
    if (!name || name->sa_family != AF_INET || !inet_ntop(AF_INET, &((const struct sockaddr_in *)name)->sin_addr, text, room))
        snprintf(text, room, "none");
}

/* Says what is told of those whose name begins so. */
static void tell(char *lines, size_t room, const char *beginning) {
    struct ifaddrs *all;
    size_t length = 0;
    if (getifaddrs(&all) != 0) {
        snprintf(lines, room, "getifaddrs: %s\n", strerror(errno));
        return;
    }
    *lines = 0;
    for (struct ifaddrs *one = all; one && length < room; one = one->ifa_next) {
        char own[64], mask[64], beside[64];
        if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || strncmp(one->ifa_name, beginning, strlen(beginning)))
            continue;
        text_of(own, sizeof own, one->ifa_addr);
        text_of(mask, sizeof mask, one->ifa_netmask);
        text_of(beside, sizeof beside, one->ifa_flags & IFF_BROADCAST ? one->ifa_broadaddr : NULL);
        length += (size_t)snprintf(lines + length, room - length, "%s %s mask %s broadcast %s flags %x\n", one->ifa_name, own,
                                   mask, beside, one->ifa_flags & FLAGS);
    }
    freeifaddrs(all);
}

#ifdef HAS_NETLINK
static void said(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
}

static int opened(void) {
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
}

/* Sends a request, and says what comes back: types of messages, or an error's number. */
static void request(int s, const char *what, int kind, int flags, const void *body, unsigned length) {
    struct {
        struct nlmsghdr header;
        char body[64];
    } asked = {.header = {NLMSG_LENGTH(length), (unsigned short)kind, (unsigned short)flags, 7, 0}};
    char answer[8192];
    memcpy(asked.body, body, length);
    printf("%s: sent %d", what, send(s, &asked, asked.header.nlmsg_len, 0) == (ssize_t)asked.header.nlmsg_len);
    for (int done = 0; !done;) {
        struct pollfd entry = {s, POLLIN, 0};
        if (poll(&entry, 1, 0) != 1) {
            printf(" nothing more");
            break;
        }
        ssize_t whole = recv(s, NULL, 0, MSG_PEEK | MSG_TRUNC), left = recv(s, answer, sizeof answer, 0);
        if (left != whole) printf(" %zd of %zd", left, whole);
        for (struct nlmsghdr *one = (struct nlmsghdr *)answer; NLMSG_OK(one, left); one = NLMSG_NEXT(one, left)) {
            if (one->nlmsg_seq != 7) printf(" another's");
            if (one->nlmsg_type == NLMSG_ERROR) {
                struct nlmsgerr *error = NLMSG_DATA(one);
                printf(" error %d about %d", error->error, error->msg.nlmsg_type);
                done = 1;
            } else if (one->nlmsg_type == NLMSG_DONE) {
                printf(" done");
                done = 1;
            } else if (!(one->nlmsg_flags & NLM_F_MULTI)) {
                printf(" %d", one->nlmsg_type);
            }
        }
    }
    printf("\n");
}

static void netlink_as_everywhere(void) {
    char lines[4096];
    said("stream", socket(AF_NETLINK, SOCK_STREAM, NETLINK_ROUTE));
    said("no protocol", socket(AF_NETLINK, SOCK_RAW, 31));
    said("far beyond", socket(AF_NETLINK, SOCK_RAW, 4000));
    int s = opened(), value = 0;
    struct sockaddr_nl name = {.nl_family = AF_NETLINK};
    socklen_t length = sizeof name;
    said("bind short", bind(s, (struct sockaddr *)&name, 11));
    said("bind", bind(s, (struct sockaddr *)&name, sizeof name));
    said("getsockname", getsockname(s, (struct sockaddr *)&name, &length));
    printf("family %d length %u port %d groups %u\n", name.nl_family, length, name.nl_pid != 0, name.nl_groups);
    struct sockaddr_nl peer;
    said("getpeername", getpeername(s, (struct sockaddr *)&peer, &length));
    printf("family %d length %u port %u\n", peer.nl_family, length, peer.nl_pid);
    name.nl_pid++;
    said("bind elsewhere", bind(s, (struct sockaddr *)&name, sizeof name));
    name.nl_family = AF_INET;
    said("bind another's", bind(s, (struct sockaddr *)&name, sizeof name));
    said("listen", listen(s, 1));
    said("accept", accept(s, NULL, NULL));
    said("shutdown", shutdown(s, SHUT_RD));
    said("lseek", lseek(s, 0, SEEK_SET));
    said("nothing yet", recv(s, lines, sizeof lines, MSG_DONTWAIT));
    const int options[] = {SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ERROR, SO_ACCEPTCONN};
    for (unsigned i = 0; i < sizeof options / sizeof *options; i++) {
        length = sizeof value;
        printf("option %d: %d %d\n", options[i], getsockopt(s, SOL_SOCKET, options[i], &value, &length), value);
    }
    struct rtgenmsg any = {AF_UNSPEC};
    struct ifinfomsg link = {.ifi_family = AF_UNSPEC, .ifi_index = 1}, none = {.ifi_index = 1 << 20};
    const int all = NLM_F_REQUEST | NLM_F_DUMP;
    request(s, "links", RTM_GETLINK, all, &any, sizeof any);
    request(s, "addresses", RTM_GETADDR, all, &any, sizeof any);
    request(s, "routes", RTM_GETROUTE, all, &any, sizeof any);
    request(s, "a link", RTM_GETLINK, NLM_F_REQUEST, &link, sizeof link);
    request(s, "a link and a word", RTM_GETLINK, NLM_F_REQUEST | NLM_F_ACK, &link, sizeof link);
    request(s, "no link", RTM_GETLINK, NLM_F_REQUEST, &none, sizeof none);
    request(s, "no word", NLMSG_NOOP, NLM_F_REQUEST, &any, sizeof any);
    request(s, "a word", NLMSG_NOOP, NLM_F_REQUEST | NLM_F_ACK, &any, sizeof any);
    request(s, "no request", RTM_GETLINK, NLM_F_DUMP, &any, sizeof any);
    request(s, "unknown", 2000, NLM_F_REQUEST, &any, sizeof any);
    /* What is cut is gone. */
    struct {
        struct nlmsghdr header;
        struct rtgenmsg body;
    } asked = {{sizeof asked, RTM_GETLINK, NLM_F_REQUEST, 8, 0}, any};
    asked.header.nlmsg_flags |= NLM_F_DUMP;
    struct iovec piece = {lines, 20};
    struct msghdr message = {.msg_name = &peer, .msg_namelen = sizeof peer, .msg_iov = &piece, .msg_iovlen = 1};
    said("write", write(s, &asked, sizeof asked));
    said("recvmsg", recvmsg(s, &message, 0));
    printf("cut %d name %u family %d port %u\n", !!(message.msg_flags & MSG_TRUNC), message.msg_namelen, peer.nl_family,
           peer.nl_pid);
    said("close", close(s));
}
#endif

int main(int count, char **arguments) {
    static char first[4096], now[4096];
    if (count > 1 && strcmp(arguments[1], "all") == 0) {
        tell(first, sizeof first, "");
        printf("%s", first);
        return 0;
    }
    if (count > 1 && strcmp(arguments[1], "again") == 0) {
        long times = 0;
        struct pollfd input = {0, POLLIN, 0};
        tell(first, sizeof first, "");
        printf("asking\n");
        fflush(stdout);
        do {
            tell(now, sizeof now, "");
            if (strcmp(first, now) != 0) {
                printf("first\n%sthen\n%s", first, now);
                return 1;
            }
            times++;
        } while (poll(&input, 1, 0) == 0);
        printf("always the same%s\n", times > 10 ? "" : ", but not asked often");
        return 0;
    }
    tell(first, sizeof first, "lo");
    printf("%s", first);
#ifdef HAS_NETLINK
    netlink_as_everywhere();
#endif
    return 0;
}
