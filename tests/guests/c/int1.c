/* Executes `int1`, and prints what its handler is told: where it goes on is behind the instruction. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

static int calls;

static void trapped(int signal, siginfo_t *info, void *context) {
    const ucontext_t *at = context;
    const unsigned char *next = (const unsigned char *)at->uc_mcontext.gregs[REG_RIP];
    printf("signal %d code %d trap %lld behind %d\n", signal, info->si_code, (long long)at->uc_mcontext.gregs[REG_TRAPNO],
           next[-1] == 0xf1 && info->si_addr == next);
    if (calls++) exit(1);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGTRAP, &action, NULL)) return 1;
    __asm__ volatile(".byte 0xf1; nop");
    puts("went on");
    return 0;
}
