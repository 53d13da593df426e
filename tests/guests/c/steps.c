/* Steps through its own instructions one by one, over a system call too, and prints where each step ended, counted from
   the first instruction, and what the frame says of it. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

enum { STEPS_MAX = 100 };

static volatile int steps;
static long long ends[STEPS_MAX];
static int codes, traps;

static void stepped(int signal, siginfo_t *info, void *context) {
    const ucontext_t *at = context;
    (void)signal;
    if (steps < STEPS_MAX) ends[steps] = at->uc_mcontext.gregs[REG_RIP];
    codes |= 1 << info->si_code;
    traps |= 1 << at->uc_mcontext.gregs[REG_TRAPNO];
    steps++;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = stepped, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGTRAP, &action, NULL)) return 1;
    char *first;
    /* The red zone is the compiler's: what is pushed goes below it. */
    __asm__ volatile(
        "lea 1f(%%rip), %0\n"
        "sub $128, %%rsp\n"
        "1: pushfq\n orq $0x100, (%%rsp)\n popfq\n nop\n"
        "mov $39, %%eax\n syscall\n nop\n nop\n"
        "mov $39, %%eax\n syscall\n mov $39, %%eax\n syscall\n nop\n"
        "pushfq\n andq $~0x100, (%%rsp)\n popfq\n nop\n"
        "add $128, %%rsp\n"
        : "=&r"(first)::"rax", "rcx", "r11", "memory", "cc");
    printf("%d steps:", steps);
    for (int i = 0; i < steps && i < STEPS_MAX; i++) printf(" %lld", ends[i] - (long long)first);
    printf("\ncodes %x traps %x\n", codes, traps);
    return 0;
}
