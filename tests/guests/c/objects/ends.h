/* The ways in which a program ends. */
#include "common.h"

#include <pthread.h>
#include <sys/syscall.h>

static void *ends_all(void *unused) {
    syscall(SYS_exit_group, 46);
    return unused;
}

/* Ends the program that way; "hang" waits for somebody who does. */
static void finish(const char *way) {
    pthread_t thread;
    if (strcmp(way, "exit") == 0) _exit(0);
    if (strcmp(way, "abort") == 0) abort();
    static int *volatile nowhere = (int *)8;
    if (strcmp(way, "fault") == 0) *nowhere = 1;
    if (strcmp(way, "kill") == 0) kill(getpid(), SIGKILL);
    /* If there is no such rank, or no more thread, it just ends. */
    if (strcmp(way, "peer") == 0) kill(getpid() % 2 ? getpid() + 1 : getpid() - 1, SIGKILL), _exit(0);
    if (strcmp(way, "thread") == 0 && pthread_create(&thread, NULL, ends_all, NULL) != 0) _exit(0);
    for (;;) pause();
}
