/* Signals: dispositions, masks, what is pending, sending with and without a value, waiting for what is there already,
   and on which stack handlers run. */
#include <sys/signalfd.h>

static char alternate_stack[65536];
static struct { int number, code, value, own, on_alternate; } caught[64];
static volatile unsigned caught_count;

static const int numbers[] = {SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, SIGURG, SIGPIPE, SIGTERM, 34, 35, 40, 64};

static void on_signal(int number, siginfo_t *info, void *context) {
    (void)context;
    char here;
    if (caught_count < 64) {
        unsigned at = caught_count++;
        caught[at].number = number;
        caught[at].code = info->si_code;
        caught[at].value = info->si_code == SI_QUEUE ? info->si_value.sival_int : 0;
        caught[at].own = info->si_pid == getpid();
        caught[at].on_alternate = &here >= alternate_stack && &here < alternate_stack + sizeof alternate_stack;
    }
}

/* What handlers were told since the last line. */
static void signals_tell(void) {
    for (unsigned i = 0; i < caught_count; i++)
        say(" [signal %d code %d value %d%s%s]", caught[i].number, caught[i].code, caught[i].value, caught[i].own ? "" : " other",
            caught[i].on_alternate ? " alternate" : "");
    caught_count = 0;
}

static int some_number(void) { return chance(24) ? CHOOSE(0, 65, -1, 32, SIGKILL, SIGSTOP) : ONE_OF(numbers); }

static uint64_t some_set(void) {
    uint64_t set = 0;
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (chance(3)) set |= 1UL << (numbers[i] - 1);
    if (chance(12)) set |= 1UL << (SIGKILL - 1) | 1UL << (SIGSTOP - 1);
    return set;
}

static size_t set_size(void) { return chance(24) ? CHOOSE(4u, 16u, 0u) : 8; }

/* As the kernel has it. The restorer is the C library's, from an action of its own. */
struct action { void *handler; unsigned long flags; void *restorer; uint64_t mask; };

static struct action plain;

static void action_call(void) {
    int number = some_number();
    if (number == 32) number = 34;
    struct action new = plain, old;
    memset(&old, 0, sizeof old);
    unsigned how = pick(5);
    new.handler = how == 0 ? (void *)SIG_IGN : (void *)on_signal;
    new.flags = 0x04000000 | SA_SIGINFO | CHOOSE(0u, SA_RESETHAND & 0u, SA_NODEFER, SA_ONSTACK, SA_RESTART, SA_ONSTACK | SA_NODEFER);
    new.mask = some_set();
    size_t size = set_size();
    int only_asks = chance(5);
    say("rt_sigaction(%d, %s, %#lx, %#lx, %zu)", number, only_asks ? "none" : how == 0 ? "ignore" : "handler", new.flags, new.mask, size);
    void *where = chance(24) ? bad_pointer() : &new;
    if (where == NULL) where = &new;
    if (gave(syscall(SYS_rt_sigaction, number, only_asks ? NULL : where, &old, size)) == 0)
        say(" {%s %#lx %#lx}", old.handler == (void *)SIG_DFL ? "default" : old.handler == (void *)SIG_IGN ? "ignore" : "handler",
            old.flags, old.mask);
}

static void mask_call(void) {
    int how = CHOOSE(SIG_BLOCK, SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK, 7);
    uint64_t set = some_set(), old = 0x55;
    size_t size = set_size();
    void *where = chance(6) ? NULL : chance(24) ? bad_pointer() : &set;
    say("rt_sigprocmask(%d, %s%#lx, %zu)", how, where == &set ? "" : where ? "bad " : "none ", set, size);
    long result = syscall(SYS_rt_sigprocmask, how, where, &old, size);
    gave(result);
    say(" %#lx", old);
}

static void send_signal_call(void) {
    int number = some_number();
    if (number == SIGKILL || number == SIGSTOP) number = SIGUSR1;
    if (number == 32) number = 33 + 1;
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = number, info.si_code = CHOOSE(SI_QUEUE, SI_QUEUE, SI_USER, 5, SI_TIMER, -60);
    info.si_pid = getpid(), info.si_uid = getuid(), info.si_value.sival_int = (int)pick(1000);
    int self = getpid();
    switch (pick(5)) {
    case 0:
        say("kill(self, %d)", number);
        gave(syscall(SYS_kill, self, number));
        break;
    case 1:
        say("tgkill(self, self, %d)", number);
        gave(syscall(SYS_tgkill, self, self, number));
        break;
    case 2:
        say("tkill(%s, %d)", chance(8) ? (self = -1, "-1") : "self", number);
        gave(syscall(SYS_tkill, self, number));
        break;
    default: {
        void *where = chance(24) ? bad_pointer() : &info;
        int to_thread = chance(2);
        say("rt_%ssigqueueinfo(self, %d, %scode %d value %d)", to_thread ? "tg" : "", number, where == &info ? "" : "bad ",
            info.si_code, info.si_value.sival_int);
        gave(to_thread ? syscall(SYS_rt_tgsigqueueinfo, self, self, number, where) : syscall(SYS_rt_sigqueueinfo, self, number, where));
    }
    }
}

static void pending_call(void) {
    uint64_t set = 0x55;
    size_t size = set_size();
    say("rt_sigpending(%zu)", size);
    gave(syscall(SYS_rt_sigpending, &set, size));
    say(" %#lx", set);
}

static void take_signal_call(void) {
    uint64_t set = some_set();
    siginfo_t info;
    memset(&info, 0, sizeof info);
    struct timespec at_once = {0, 0};
    if (chance(16)) at_once.tv_nsec = 1000000000;
    size_t size = set_size();
    say("rt_sigtimedwait(%#lx, %ld, %zu)", set, at_once.tv_nsec, size);
    if (gave(syscall(SYS_rt_sigtimedwait, &set, &info, &at_once, size)) > 0)
        say(" {%d code %d value %d%s}", info.si_signo, info.si_code, info.si_code == SI_QUEUE ? info.si_value.sival_int : 0,
            info.si_pid == getpid() ? "" : " other");
}

static void stack_call(void) {
    stack_t new = {.ss_sp = alternate_stack, .ss_size = CHOOSE(sizeof alternate_stack, sizeof alternate_stack, 2048u, 100u, 0u),
                   .ss_flags = CHOOSE(0, 0, 0, SS_DISABLE, (int)(1u << 31), 1, 4)};
    stack_t old;
    memset(&old, 0, sizeof old);
    /* Handlers must fit: a small one is taken away again. */
    void *where = chance(6) ? NULL : chance(24) ? bad_pointer() : &new;
    say("sigaltstack(%s%zu, %#x)", where == &new ? "" : where ? "bad " : "none ", new.ss_size, new.ss_flags);
    long result = gave(syscall(SYS_sigaltstack, where, &old));
    if (result == 0)
        say(" {%s %zu %#x}", old.ss_sp == alternate_stack ? "own" : old.ss_sp ? "other" : "none", old.ss_size, old.ss_flags);
    if (result == 0 && where == &new && new.ss_size < sizeof alternate_stack) {
        stack_t none = {.ss_flags = SS_DISABLE};
        syscall(SYS_sigaltstack, &none, NULL);
    }
}

/* A descriptor that says which signals are pending, or another set for one. */
static void signal_file_call(void) {
    uint64_t set = some_set();
    size_t size = set_size();
    int flags = CHOOSE(0, SFD_CLOEXEC, 1), changes = live_of(OF(SIGNAL_FILE)) != NULL && chance(2);
    if (count_live() > 14) { close_one(live_of(ANY_KIND)); return; }
    void *where = chance(24) ? bad_pointer() : &set;
    say("signalfd4(");
    int number = -1;
    if (changes) number = some_descriptor(OF(SIGNAL_FILE)); else say("-1");
    say(", %s%#lx, %zu, %#x)", where == &set ? "" : "bad ", set, size, flags);
    long made = gave(syscall(SYS_signalfd4, number, where, size, flags | SFD_NONBLOCK));
    if (number == -1) add_live(made, SIGNAL_FILE);
}

static void signal_file_read_call(void) {
    static struct signalfd_siginfo infos[4];
    size_t length = CHOOSE(sizeof *infos, sizeof infos, sizeof *infos - 1, 0u);
    void *where = chance(24) && may(LOST_COUNTS) ? bad_pointer() : infos;
    say("read(");
    int number = some_descriptor(OF(SIGNAL_FILE));
    say(", %s, %zu)", where == infos ? "infos" : "bad", length);
    struct live *one = find_live(number);
    if (one && one->kind != SIGNAL_FILE) number = -1, say("!");
    long got = gave(syscall(SYS_read, number, where, length));
    for (long i = 0; where == infos && i < got / (long)sizeof *infos; i++)
        say(" {%u code %d value %d%s}", infos[i].ssi_signo, infos[i].ssi_code, infos[i].ssi_code == SI_QUEUE ? infos[i].ssi_int : 0,
            infos[i].ssi_code > 0 || infos[i].ssi_code == SI_TIMER || infos[i].ssi_pid == (unsigned)getpid() ? "" : " other");
}

/* Waits with another mask, for a signal that is there already. */
static void suspend_call(void) {
    uint64_t own = 1UL << (SIGUSR1 - 1), old, waits = some_set() & ~own;
    size_t size = set_size();
    say("rt_sigsuspend(%#lx, %zu)", waits, size);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &own, &old, 8);
    struct action action = plain, before;
    syscall(SYS_rt_sigaction, SIGUSR1, &action, &before, 8);
    syscall(SYS_kill, getpid(), SIGUSR1);
    gave(syscall(SYS_rt_sigsuspend, &waits, size));
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, &waits, 8);
    say(" %#lx", waits);
    syscall(SYS_rt_sigaction, SIGUSR1, &before, NULL, 8);
}

static void signals_call(void) {
    switch (pick(15)) {
    case 12: signal_file_call(); break;
    case 13: if (live_of(OF(SIGNAL_FILE))) signal_file_read_call(); else signal_file_call(); break;
    case 14: suspend_call(); break;
    case 0: case 1: action_call(); break;
    case 2: case 3: mask_call(); break;
    case 4: case 5: case 6: case 7: send_signal_call(); break;
    case 8: pending_call(); break;
    case 9: case 10: take_signal_call(); break;
    default: stack_call();
    }
}

/* Every signal has a handler, and none is pending. */
static void signals_reset(void) {
    uint64_t all = 0;
    struct action ignore = plain;
    ignore.handler = (void *)SIG_IGN;
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        all |= 1UL << (numbers[i] - 1);
        syscall(SYS_rt_sigaction, numbers[i], &ignore, NULL, 8);
        syscall(SYS_rt_sigaction, numbers[i], &plain, NULL, 8);
    }
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &all, NULL, 8);
    stack_t none = {.ss_flags = SS_DISABLE};
    syscall(SYS_sigaltstack, &none, NULL);
    caught_count = 0;
}

static void signals_start(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    syscall(SYS_rt_sigaction, SIGUSR1, NULL, &plain, 8);
    signals_reset();
}

static void signals_end(void) { signals_reset(); }
