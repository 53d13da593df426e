/* Signal handlers with every flag, what they find, and what they leave. Prints what the host prints; with an argument,
 * ends in the way that it names. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int depth, deepest, count;
static volatile sig_atomic_t order[64];
static char big_stack[1 << 16] __attribute__((aligned(16)));
static sigjmp_buf back;
static volatile int *volatile nothing = (volatile int *)0x10;

static void set(int signal, int flags, void *handler) {
    struct sigaction action = {.sa_flags = flags};
    action.sa_sigaction = handler;
    sigemptyset(&action.sa_mask);
    if (sigaction(signal, &action, NULL)) perror("sigaction");
}

static int is_blocked(int signal) {
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    return sigismember(&mask, signal);
}

/* --- What a handler is told, and what is blocked. --- */

static void tells(int signal, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    printf("  signal %d code %d pid %d uid %d blocked %d %d, before %d, frame %d, link %p\n", info->si_signo, info->si_code,
           info->si_pid == getpid(), info->si_uid == getuid(), is_blocked(signal), is_blocked(SIGUSR2),
           sigismember(&uc->uc_sigmask, signal), (int)((uintptr_t)__builtin_frame_address(0) % 16), (void *)uc->uc_link);
    count++;
}

static void counts(int signal) { count++; }

static void nests(int signal) {
    if (++depth > deepest) deepest = depth;
    if (++count % 6) raise(signal);
    depth--;
}

static void notes(int signal, siginfo_t *info, void *context) {
    order[count++] = signal * 1000 + (info->si_code == SI_QUEUE ? info->si_value.sival_int : 0);
}

static void basics(void) {
    struct sigaction action = {.sa_flags = SA_SIGINFO, .sa_sigaction = tells};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &action, NULL);
    puts("raise, kill, tgkill, sigqueue:");
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
    sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 7});
    kill(0, 0);
    printf("still blocked: %d %d, handled %d\n", is_blocked(SIGUSR1), is_blocked(SIGUSR2), count);
    count = 0;
    set(SIGUSR1, 0, nests);
    raise(SIGUSR1);
    printf("deferred: deepest %d\n", deepest);
    deepest = 0;
    set(SIGUSR1, SA_NODEFER, nests);
    raise(SIGUSR1);
    printf("not deferred: deepest %d\n", deepest);
    set(SIGUSR1, SA_RESETHAND, counts);
    raise(SIGUSR1);
    struct sigaction now;
    sigaction(SIGUSR1, NULL, &now);
    printf("reset: %d, flags %x\n", now.sa_handler == SIG_DFL, now.sa_flags & ~0x04000000);
    signal(SIGUSR1, SIG_IGN);
    raise(SIGUSR1);
    printf("errors: %d", kill(getpid(), 65) ? errno : 0);
    printf(" %d", kill(1 << 30, 0) ? errno : 0);
    printf(" %d", (int)syscall(SYS_tkill, -1, 1) ? errno : 0);
    printf(" %d", (int)syscall(SYS_tgkill, getpid(), 1 << 21, 1) ? errno : 0);
    printf(" %d", sigaction(SIGKILL, &action, NULL) ? errno : 0);
    siginfo_t forged = {.si_code = SI_USER};
    printf(" %d\n", (int)syscall(SYS_rt_sigqueueinfo, getppid(), SIGUSR1, &forged) ? errno : 0);
}

static void queues(void) {
    int signals[] = {SIGUSR1, SIGUSR2, SIGRTMIN, SIGRTMIN + 3, SIGTERM};
    sigset_t all, before, pending;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    count = 0;
    for (int i = 0; i < 5; i++) {
        struct sigaction action = {.sa_flags = SA_SIGINFO, .sa_sigaction = notes, .sa_mask = all};
        sigaction(signals[i], &action, NULL);
    }
    for (int i = 1; i <= 3; i++)
        for (int s = 4; s >= 0; s--) sigqueue(getpid(), signals[s], (union sigval){.sival_int = i});
    kill(getpid(), SIGRTMIN + 3);
    sigpending(&pending);
    printf("pending:");
    for (int s = 1; s < 65; s++)
        if (sigismember(&pending, s) == 1) printf(" %d", s);
    sigprocmask(SIG_SETMASK, &before, NULL);
    printf("\ntaken:");
    for (int i = 0; i < count; i++) printf(" %d", order[i]);
    puts("");
    /* Ignored and blocked ones. */
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_DFL);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGCHLD);
    kill(getpid(), SIGUSR2);
    sigpending(&pending);
    printf("pending though ignored: %d %d %d;", sigismember(&pending, SIGUSR1), sigismember(&pending, SIGCHLD),
           sigismember(&pending, SIGUSR2));
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    sigpending(&pending);
    printf(" then %d %d %d\n", sigismember(&pending, SIGUSR1), sigismember(&pending, SIGCHLD), sigismember(&pending, SIGUSR2));
    sigprocmask(SIG_SETMASK, &before, NULL);
    signal(SIGUSR2, SIG_DFL);
}

static void waits(void) {
    sigset_t wanted, before;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    sigaddset(&wanted, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &wanted, &before);
    struct timespec none = {0, 0}, some = {0, 20000000};
    siginfo_t info;
    printf("nothing: %d", sigtimedwait(&wanted, &info, &none) < 0 ? errno : 0);
    printf(" %d\n", sigtimedwait(&wanted, &info, &some) < 0 ? errno : 0);
    signal(SIGUSR1, SIG_DFL);
    sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 5});
    sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 6});
    raise(SIGUSR1);
    for (int i = 0; i < 3; i++) {
        int got = sigwaitinfo(&wanted, &info);
        printf("got %d code %d value %d\n", got, info.si_code, got == SIGUSR1 ? 0 : info.si_value.sival_int);
    }
    set(SIGUSR2, SA_SIGINFO, notes);
    count = 0;
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGUSR2);
    sigprocmask(SIG_BLOCK, &only, NULL);
    raise(SIGUSR2);
    sigset_t none_blocked;
    sigemptyset(&none_blocked);
    int suspended = sigsuspend(&none_blocked) < 0 ? errno : 0;
    printf("suspended: %d, handled %d, blocked %d\n", suspended, count, is_blocked(SIGUSR2));
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* --- Alternate stacks. --- */

static void on_stack(int signal, siginfo_t *info, void *context) {
    char here;
    ucontext_t *uc = context;
    stack_t now, other = {.ss_sp = big_stack, .ss_size = 8192};
    sigaltstack(NULL, &now);
    int is_on = &here >= big_stack && &here < big_stack + sizeof big_stack;
    int refused = sigaltstack(&other, NULL) ? errno : 0;
    printf("  on it %d, flags %x, refused %d, told %d %zu\n", is_on, (unsigned)now.ss_flags, refused,
           uc->uc_stack.ss_sp == big_stack, uc->uc_stack.ss_size);
}

static void stacks(void) {
    stack_t stack = {.ss_sp = big_stack, .ss_size = sizeof big_stack}, none = {.ss_flags = SS_DISABLE}, now;
    stack_t small = {.ss_sp = big_stack, .ss_size = 100}, odd = {.ss_sp = big_stack, .ss_size = 8192, .ss_flags = 77};
    sigaltstack(NULL, &now);
    printf("none: %x %zu\n", (unsigned)now.ss_flags, now.ss_size);
    printf("small %d, odd %d\n", sigaltstack(&small, NULL) ? errno : 0, sigaltstack(&odd, NULL) ? errno : 0);
    set(SIGUSR1, SA_SIGINFO | SA_ONSTACK, on_stack);
    raise(SIGUSR1);
    sigaltstack(&stack, NULL);
    raise(SIGUSR1);
    set(SIGUSR1, SA_SIGINFO, on_stack);
    raise(SIGUSR1);
    set(SIGUSR1, SA_SIGINFO | SA_ONSTACK, on_stack);
    stack.ss_flags = (int)(1u << 31);
    sigaltstack(&stack, NULL);
    raise(SIGUSR1);
    sigaltstack(NULL, &now);
    printf("again: %x %zu\n", (unsigned)now.ss_flags, now.ss_size);
    sigaltstack(&none, NULL);
    raise(SIGUSR1);
}

/* --- Faults. --- */

static void *expected;

static void fault(int signal, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    greg_t *regs = uc->uc_mcontext.gregs;
    int with_address = info->si_code != SI_KERNEL;
    printf("  signal %d code %d address %d, trap %d error %x cr2 %d\n", signal, info->si_code,
           with_address ? info->si_addr == expected || info->si_addr == (void *)regs[REG_RIP] : info->si_addr == NULL,
           (int)regs[REG_TRAPNO], (unsigned)regs[REG_ERR] & ~1u, regs[REG_TRAPNO] == 14 ? (void *)regs[REG_CR2] == expected : 0);
    siglongjmp(back, 1);
}

static int deeper(int level) {
    volatile char room[4096];
    room[0] = (char)level;
    return level > 1 << 20 ? room[0] : deeper(level + 1) + room[0];
}

static void overflowed(int signal, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    uintptr_t from = (uintptr_t)info->si_addr - (uintptr_t)uc->uc_mcontext.gregs[REG_RSP];
    printf("  signal %d near the stack pointer: %d\n", signal, from + 8192 < 32768);
    siglongjmp(back, 1);
}

#define TRY(what, address, code)                   \
    do {                                           \
        puts(what);                                \
        expected = (void *)(address);              \
        if (!sigsetjmp(back, 1)) {                 \
            code;                                  \
            puts("  nothing");                     \
        }                                          \
    } while (0)

static void faults(void) {
    int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    for (int i = 0; i < 5; i++) set(signals[i], SA_SIGINFO, fault);
    volatile char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile int zero = 0;
    TRY("write to nothing", 0x10, *nothing = 1);
    TRY("read from nothing", 0x1234, (void)*(volatile int *)0x1234);
    TRY("write to read-only", page + 5, page[5] = 1);
    TRY("execute data", page, ((void (*)(void))page)());
    TRY("read from the kernel", 0xffffffff80000000, (void)*(volatile int *)0xffffffff80000000);
    TRY("no address at all", 0, (void)*(volatile int *)0x800000000000);
    TRY("divide", 0, __asm__ volatile("xor %%edx, %%edx; mov $7, %%eax; divl %0" : : "m"(zero) : "eax", "edx"));
    TRY("invalid", 0, __asm__ volatile("ud2"));
    TRY("breakpoint", 0, __asm__ volatile("int3"));
    TRY("privileged", 0, __asm__ volatile("hlt"));
    TRY("step", 0, __asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq; nop; nop" : : : "memory", "cc"));
    TRY("x87 divide", 0, __asm__ volatile("fninit; movl $0x37b, -4(%%rsp); fldcw -4(%%rsp); fld1; fldz; fdivrp; fwait" : : : "memory"));
    __asm__ volatile("fninit");
    /* The stack overflows; there is another for the handler. */
    stack_t stack = {.ss_sp = big_stack, .ss_size = sizeof big_stack};
    sigaltstack(&stack, NULL);
    set(SIGSEGV, SA_SIGINFO | SA_ONSTACK, overflowed);
    TRY("overflow", 0, deeper(0));
    TRY("overflow again", 0, deeper(0));
    for (int i = 0; i < 5; i++) signal(signals[i], SIG_DFL);
}

/* --- Registers. --- */

static void skips(int signal, siginfo_t *info, void *context) {
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    regs[REG_RIP] += 2;
    regs[REG_RAX] = 4711;
    regs[REG_EFL] |= 1;
}

static void changes_registers(int signal, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    unsigned mxcsr, flags_word;
    unsigned short control;
    unsigned long flags;
    __asm__ volatile("stmxcsr %0; fnstcw %1; pushfq; popq %2" : "=m"(mxcsr), "=m"(control), "=r"(flags));
    memcpy(&flags_word, (char *)uc->uc_mcontext.fpregs + 464, 4);
    printf("  in the handler: mxcsr %x control %x direction %d, then %x, words %d\n", mxcsr, control,
           (int)(flags >> 10 & 1), uc->uc_mcontext.fpregs->mxcsr & 0x1f80, flags_word == 0x46505853);
    /* Everything is overwritten. */
    __asm__ volatile("fninit; fldz; fldz; fldz; fldz; pxor %%xmm0, %%xmm0; pxor %%xmm7, %%xmm7; pxor %%xmm15, %%xmm15" : : : "memory");
    if (__builtin_cpu_supports("avx")) __asm__ volatile("vzeroall" : : : "memory");
    uc->uc_mcontext.fpregs->_xmm[3].element[0] = 0x1234;
}

static void vectors(void) {
    static unsigned char wide[32], got[32], lanes[16], third[16];
    int has_avx = __builtin_cpu_supports("avx");
    double x87 = 0;
    unsigned mxcsr = 0x1f80 | 0x6000, after = 0;
    unsigned long flags;
    for (int i = 0; i < 32; i++) wide[i] = (unsigned char)(i * 7 + 1);
    set(SIGUSR1, SA_SIGINFO, changes_registers);
    long pid = getpid();
    __asm__ volatile("ldmxcsr %0; fninit; fldpi" : : "m"(mxcsr));
    if (has_avx) __asm__ volatile("vmovdqu %0, %%ymm7" : : "m"(wide) : "xmm7");
    long result;
    __asm__ volatile("movdqu %[lanes], %%xmm15; movdqu %[wide], %%xmm3; std; syscall; pushfq; popq %[flags]; cld;"
                     "movdqu %%xmm15, %[out]; movdqu %%xmm3, %[third]"
                     : "=a"(result), [flags] "=&r"(flags), [out] "=m"(lanes), [third] "=m"(third)
                     : "a"(SYS_kill), "D"(pid), "S"(SIGUSR1), [lanes] "m"(wide[8]), [wide] "m"(wide)
                     : "rcx", "r11", "xmm15", "xmm3", "memory");
    if (has_avx) __asm__ volatile("vmovdqu %%ymm7, %0" : "=m"(got));
    else memcpy(got, wide, 32);
    __asm__ volatile("stmxcsr %0; fstpl %1" : "=m"(after), "=m"(x87));
    unsigned normal = 0x1f80;
    __asm__ volatile("ldmxcsr %0" : : "m"(normal));
    printf("result %ld, direction kept %d, xmm15 %d, ymm7 %d, xmm3 %x, mxcsr %x, pi %.10f\n", result, (int)(flags >> 10 & 1),
           !memcmp(lanes, wide + 8, 16), !memcmp(got, wide, 32), third[0] | third[1] << 8, after, x87);
    set(SIGILL, SA_SIGINFO, skips);
    long rax = 0, rcx = 99, r11 = 98;
    unsigned char carry;
    __asm__ volatile("clc; mov $5, %%rcx; mov $6, %%r11; ud2; setc %0" : "=r"(carry), "+a"(rax), "=c"(rcx) : : "r11");
    __asm__ volatile("mov $6, %%r11; ud2; mov %%r11, %0" : "=r"(r11), "+a"(rax) : : "r11");
    printf("skipped: rax %ld rcx %ld r11 %ld carry %d\n", rax, rcx, r11, carry);
    signal(SIGILL, SIG_DFL);
}

/* --- Broken pipes and time. --- */

static void wait_for(int wanted) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    while (count < wanted) sigsuspend(&before);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static void pipes(void) {
    int ends[2];
    if (pipe(ends)) return;
    close(ends[0]);
    count = 0;
    set(SIGPIPE, 0, counts);
    int failed = write(ends[1], "x", 1) < 0 ? errno : 0;
    printf("broken pipe: %d, handled %d\n", failed, count);
    signal(SIGPIPE, SIG_IGN);
    failed = write(ends[1], "x", 1) < 0 ? errno : 0;
    printf("broken pipe: %d, handled %d\n", failed, count);
    close(ends[1]);
    signal(SIGPIPE, SIG_DFL);
}

static void tells_timer(int signal, siginfo_t *info, void *context) {
    if (count++ == 0)
        printf("  timer code %d value %d overrun %d\n", info->si_code, info->si_value.sival_int, info->si_overrun > 0);
}

static void timers(void) {
    struct itimerval often = {{0, 5000}, {0, 5000}}, off = {{0, 0}, {0, 0}}, now;
    count = 0;
    set(SIGALRM, 0, counts);
    setitimer(ITIMER_REAL, &often, NULL);
    wait_for(3);
    setitimer(ITIMER_REAL, &off, &now);
    printf("interval timer: %ld %d\n", (long)now.it_interval.tv_usec, now.it_value.tv_usec > 0);
    getitimer(ITIMER_REAL, &now);
    printf("off: %ld\n", (long)now.it_value.tv_usec);
    printf("alarm: %u", alarm(100));
    printf(" %u", alarm(0));
    printf(" %u\n", alarm(0));
    int signals[] = {SIGVTALRM, SIGPROF}, which[] = {ITIMER_VIRTUAL, ITIMER_PROF};
    for (int i = 0; i < 2; i++) {
        count = 0;
        set(signals[i], 0, counts);
        setitimer(which[i], &often, NULL);
        while (count < 3) {
        }
        setitimer(which[i], &off, NULL);
        printf("processor timer %d: enough\n", i);
    }
    /* One that is up many times before its signal is taken. */
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 2, .sigev_value.sival_int = 42};
    struct itimerspec spec = {{0, 1000000}, {0, 1000000}}, none = {{0, 0}, {0, 0}}, left;
    timer_t timer;
    sigset_t set_of, before;
    sigemptyset(&set_of);
    sigaddset(&set_of, SIGRTMIN + 2);
    sigprocmask(SIG_BLOCK, &set_of, &before);
    set(SIGRTMIN + 2, SA_SIGINFO, tells_timer);
    count = 0;
    printf("create: %d\n", timer_create(CLOCK_MONOTONIC, &event, &timer));
    timer_settime(timer, 0, &spec, NULL);
    struct timespec pause = {0, 30000000};
    nanosleep(&pause, NULL);
    timer_gettime(timer, &left);
    printf("period %ld, left %d\n", left.it_interval.tv_nsec, left.it_value.tv_nsec > 0 && left.it_value.tv_nsec <= 1000000);
    sigprocmask(SIG_SETMASK, &before, NULL);
    timer_settime(timer, 0, &none, NULL);
    printf("overrun %d, ", timer_getoverrun(timer) >= 0);
    printf("deleted %d", timer_delete(timer));
    printf(" %d\n", timer_delete(timer) < 0 ? errno : 0);
    /* Absolute, by the time of day, to this thread. */
    struct timespec now_real;
    clock_gettime(CLOCK_REALTIME, &now_real);
    event = (struct sigevent){.sigev_notify = 4, .sigev_signo = SIGUSR1};
    pid_t self = (pid_t)syscall(SYS_gettid);
    /* Where the kernel looks for the thread; the C libraries do not agree on a name. */
    memcpy((char *)&event + 16, &self, sizeof self);
    timer_create(CLOCK_REALTIME, &event, &timer);
    count = 0;
    set(SIGUSR1, 0, counts);
    spec = (struct itimerspec){{0, 0}, now_real};
    timer_settime(timer, TIMER_ABSTIME, &spec, NULL);
    wait_for(1);
    timer_gettime(timer, &left);
    printf("absolute: %ld %ld\n", left.it_value.tv_sec, left.it_value.tv_nsec);
    timer_delete(timer);
    struct sigevent wrong = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = 99};
    printf("wrong: %d %d\n", timer_create(CLOCK_MONOTONIC, &wrong, &timer) < 0 ? errno : 0,
           timer_create(1234, NULL, &timer) < 0 ? errno : 0);
}

/* --- Ends. --- */

static void forge(int signal, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    const char *how = (const char *)expected;
    greg_t *regs = uc->uc_mcontext.gregs;
    unsigned char *vector = (unsigned char *)uc->uc_mcontext.fpregs;
    if (!strcmp(how, "rip")) regs[REG_RIP] = (greg_t)0x8000000000000000;
    if (!strcmp(how, "kernel-rip")) regs[REG_RIP] = (greg_t)0xffffffff80100000;
    if (!strcmp(how, "cs")) regs[REG_CSGSFS] = (regs[REG_CSGSFS] & ~0xffff) | 0x10;
    if (!strcmp(how, "ss")) regs[REG_CSGSFS] = (regs[REG_CSGSFS] & ~(0xffffL << 48)) | (0x18L << 48);
    if (!strcmp(how, "components")) vector[512 + 7] = 0x40;
    if (!strcmp(how, "compacted")) vector[512 + 15] = 0x80;
    if (!strcmp(how, "mxcsr")) vector[27] = 0xff;
    if (!strcmp(how, "vector")) uc->uc_mcontext.fpregs = (void *)0x1000;
    if (!strcmp(how, "unaligned")) uc->uc_mcontext.fpregs = (void *)(vector + 8);
    /* Harmless: these bits are not the program's, or no use is made of what is not understood. */
    if (!strcmp(how, "flags")) regs[REG_EFL] |= 0x3000 | 0x20000 | 0x80000 | 0x100000;
    if (!strcmp(how, "no-interrupts")) regs[REG_EFL] &= ~0x200L;
    if (!strcmp(how, "magic")) vector[464] = 0;
    if (!strcmp(how, "no-vector")) uc->uc_mcontext.fpregs = NULL;
    if (!strcmp(how, "kill-mask")) sigfillset(&uc->uc_sigmask);
}

static void again(int signal) { raise(signal); }

static void faults_again(int signal) { *nothing = 1; }

static int end(const char *how) {
    static char small[8192];
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("about to: %s\n", how);
    if (!strcmp(how, "term")) raise(SIGTERM);
    if (!strcmp(how, "real-time")) raise(SIGRTMIN + 5);
    if (!strcmp(how, "pipe")) {
        int ends[2];
        if (pipe(ends)) return 1;
        close(ends[0]);
        return (int)write(ends[1], "x", 1);
    }
    if (!strcmp(how, "alarm")) {
        alarm(1);
        for (;;) pause();
    }
    if (!strcmp(how, "blocked-fault") || !strcmp(how, "ignored-fault")) {
        sigset_t set_of;
        sigemptyset(&set_of);
        sigaddset(&set_of, SIGSEGV);
        set(SIGSEGV, SA_SIGINFO, fault);
        if (how[0] == 'b') sigprocmask(SIG_BLOCK, &set_of, NULL);
        else signal(SIGSEGV, SIG_IGN);
        *nothing = 1;
    }
    if (!strcmp(how, "fault-in-handler")) {
        set(SIGSEGV, 0, faults_again);
        *nothing = 1;
    }
    if (!strcmp(how, "small-stack")) {
        stack_t stack = {.ss_sp = small, .ss_size = sizeof small};
        sigaltstack(&stack, NULL);
        set(SIGUSR1, SA_ONSTACK | SA_NODEFER, again);
        raise(SIGUSR1);
    }
    if (!strcmp(how, "bad-stack")) {
        set(SIGUSR1, 0, counts);
        __asm__ volatile("mov $0x1000, %%rsp; syscall" : : "a"(SYS_kill), "D"((long)getpid()), "S"((long)SIGUSR1) : "rcx", "r11");
    }
    if (!strcmp(how, "no-restorer")) {
        long action[4] = {(long)counts, 0, 0, 0};
        syscall(SYS_rt_sigaction, SIGUSR1, action, NULL, 8);
        raise(SIGUSR1);
    }
    if (!strcmp(how, "no-frame")) __asm__ volatile("mov $0x1008, %%rsp; syscall" : : "a"(SYS_rt_sigreturn) : "rcx", "r11");
    expected = (void *)how;
    set(SIGUSR1, SA_SIGINFO, forge);
    raise(SIGUSR1);
    unsigned long flags;
    __asm__ volatile("pushfq; popq %0" : "=r"(flags));
    printf("went on: interrupts %d privilege %d, SIGKILL blocked %d\n", (int)(flags >> 9 & 1), (int)(flags >> 12 & 3),
           is_blocked(SIGKILL));
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1) return end(argv[1]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    basics();
    queues();
    waits();
    stacks();
    faults();
    vectors();
    pipes();
    timers();
    return 0;
}
