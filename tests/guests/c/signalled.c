/* Does what it is sent signals for. Sets handlers for SIGUSR1, SIGRTMIN + 1 and SIGTERM, ignores SIGINT, and says
   `ready`; then prints the name of each signal that a handler was called for, in the order of the calls. SIGTERM makes it
   exit with status 7 if the argument is `catch`; otherwise it has no handler. With the argument `count` its two threads do
   nothing but count and print `one N` and `other N` about ten times a second. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void say(int signal) {
    const char *text = signal == SIGUSR1 ? "USR1\n" : signal == SIGTERM ? "TERM\n" : "RTMIN+1\n";
    if (write(1, text, strlen(text)) < 0) _exit(98);
    if (signal == SIGTERM) _exit(7);
}

static void *counts(void *name) {
    struct timespec pause = {.tv_nsec = 100000000};
    for (int i = 0;; i++) {
        printf("%s %d\n", (const char *)name, i);
        nanosleep(&pause, NULL);
    }
    return name;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(how, "count")) {
        pthread_t other;
        if (pthread_create(&other, NULL, counts, "other")) return 97;
        counts("one");
    }
    struct sigaction action = {.sa_handler = say};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGRTMIN + 1, &action, NULL);
    if (!strcmp(how, "catch")) sigaction(SIGTERM, &action, NULL);
    signal(SIGINT, SIG_IGN);
    puts("ready");
    for (;;) pause();
}
