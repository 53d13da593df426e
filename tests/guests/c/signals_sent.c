/* Tells which signals it was sent; one without a handler ends it. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t last;

static void handler(int signal) { last = signal; }

int main(void) {
    struct sigaction action = {.sa_handler = handler};
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    for (;;) {
        sigsuspend(&before);
        printf("signal %d\n", (int)last);
    }
}
