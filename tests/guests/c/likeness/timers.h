/* Timers that are far from running out, or have done so already. What is left is said in tens of seconds. */
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

#define TIMERS_MAX 8
static int timer_ids[TIMERS_MAX];
static unsigned timers_live;

static long tens(long seconds, long fraction) { return seconds == 0 && fraction == 0 ? 0 : (seconds + 9) / 10 * 10; }

static void say_left(const struct itimerspec *left) {
    say(" {%ld every %ld.%09ld}", tens(left->it_value.tv_sec, left->it_value.tv_nsec), left->it_interval.tv_sec, left->it_interval.tv_nsec);
}

static int some_timer(void) {
    int number = timers_live > 0 && !chance(12) ? (int)pick(timers_live) : -1;
    say("%d", number);
    return number < 0 ? CHOOSE(-1, 9999999) : timer_ids[number];
}

static struct itimerspec some_time(void) {
    struct itimerspec time = {.it_value = CHOOSE_AS(struct timespec, (struct timespec){0, 0}, (struct timespec){10000, 0}, (struct timespec){5000, 999999999},
                                                 (struct timespec){5000, 1000000000}, (struct timespec){-1, 0}, (struct timespec){100000, 1}),
                              .it_interval = CHOOSE_AS(struct timespec, (struct timespec){0, 0}, (struct timespec){100, 5}, (struct timespec){0, -1}, (struct timespec){7000, 0})};
    say(", {%ld.%ld every %ld.%ld}", time.it_value.tv_sec, time.it_value.tv_nsec, time.it_interval.tv_sec, time.it_interval.tv_nsec);
    return time;
}

static void create_call(void) {
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = CHOOSE(SIGEV_SIGNAL, SIGEV_SIGNAL, SIGEV_NONE, SIGEV_THREAD_ID, 77);
    event.sigev_signo = CHOOSE(SIGUSR1, 40, 0, 65, SIGTERM);
    event._sigev_un._tid = CHOOSE(getpid(), getpid(), 1);
    int clock = CHOOSE(CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_PROCESS_CPUTIME_ID, 77, -1, CLOCK_MONOTONIC_RAW);
    int id = -1;
    void *what = chance(6) ? NULL : chance(24) ? bad_pointer() : &event;
    say("timer_create(%d, %s, %d, %d)", clock, what == &event ? "event" : what ? "bad" : "none", event.sigev_notify, event.sigev_signo);
    if (timers_live == TIMERS_MAX) { say(" (full)"); return; }
    if (gave(syscall(SYS_timer_create, clock, what, &id)) == 0) timer_ids[timers_live++] = id;
}

static void timer_settime_call(void) {
    struct itimerspec old = {0};
    say("timer_settime(");
    int id = some_timer(), flags = CHOOSE(0, 0, 0, 2);
    struct itimerspec new = some_time();
    say(", %d)", flags);
    if (gave(syscall(SYS_timer_settime, id, flags, &new, &old)) == 0) say_left(&old);
}

static void timer_look_call(void) {
    struct itimerspec left = {0};
    if (chance(3)) {
        say("timer_getoverrun(");
        int id = some_timer();
        say(")");
        gave(syscall(SYS_timer_getoverrun, id));
        return;
    }
    say("timer_gettime(");
    int id = some_timer();
    say(")");
    if (gave(syscall(SYS_timer_gettime, id, &left)) == 0) say_left(&left);
}

static void timer_delete_call(void) {
    unsigned which = timers_live ? pick(timers_live) : 0;
    int id = timers_live && !chance(10) ? timer_ids[which] : -1;
    say("timer_delete(%d)", id < 0 ? -1 : (int)which);
    gave(syscall(SYS_timer_delete, id));
    if (id >= 0) timer_ids[which] = timer_ids[--timers_live];
}

/* A timer that ran out before it was set: its signal comes at once. */
static void past_call(void) {
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL, event.sigev_signo = 40, event.sigev_value.sival_int = (int)pick(100);
    struct itimerspec past = {.it_value = {0, 1}};
    uint64_t set = 1UL << 39, old;
    struct timespec limit = {5, 0};
    siginfo_t info;
    int id;
    memset(&info, 0, sizeof info);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &old, 8);
    while (syscall(SYS_rt_sigtimedwait, &set, NULL, &(struct timespec){0, 0}, 8) > 0) {}
    say("a timer in the past");
    if (gave(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id)) == 0) {
        gave(syscall(SYS_timer_settime, id, TIMER_ABSTIME, &past, NULL));
        gave(syscall(SYS_rt_sigtimedwait, &set, &info, &limit, 8));
        say(" {%d code %d value %d overrun %d}", info.si_signo, info.si_code, info.si_value.sival_int, info.si_overrun);
        struct itimerspec left = {{1, 1}, {1, 1}};
        syscall(SYS_timer_gettime, id, &left);
        say_left(&left);
        gave(syscall(SYS_timer_delete, id));
    }
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8);
}

static void itimer_call(void) {
    int which = CHOOSE(ITIMER_REAL, ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF, 3);
    struct itimerval new = {.it_value = {CHOOSE(0L, 10000L, 5000L), CHOOSE(0L, 1000000L, -1L, 5L)}, .it_interval = {CHOOSE(0L, 100L), 0}}, old;
    memset(&old, 0, sizeof old);
    if (new.it_value.tv_sec == 0) new.it_value.tv_usec = 0;
    say("setitimer(%d, {%ld.%ld every %ld})", which, new.it_value.tv_sec, new.it_value.tv_usec, new.it_interval.tv_sec);
    if (gave(syscall(SYS_setitimer, which, chance(24) ? bad_pointer() : &new, &old)) == 0)
        say(" {%ld every %ld}", tens(old.it_value.tv_sec, old.it_value.tv_usec), old.it_interval.tv_sec);
}

static void alarm_call(void) {
    unsigned seconds = CHOOSE(0u, 10000u, 5000u);
    say("alarm(%u)", seconds);
    say(" = %ld", tens(syscall(SYS_alarm, seconds), 0));
}

static void clock_call(void) {
    int clock = CHOOSE(0, 1, 2, 3, 4, 5, 6, 7, 11, 12, -1, 77);
    struct timespec resolution = {7, 7};
    say("clock_getres(%d)", clock);
    if (gave(syscall(SYS_clock_getres, clock, &resolution)) == 0) say(" {%ld}", resolution.tv_sec);
}

static void timers_call(void) {
    switch (pick(12)) {
    case 0: case 1: create_call(); break;
    case 2: case 3: case 4: timer_settime_call(); break;
    case 5: case 6: timer_look_call(); break;
    case 7: timer_delete_call(); break;
    case 8: past_call(); break;
    case 9: itimer_call(); break;
    case 10: alarm_call(); break;
    default: clock_call();
    }
}

static void timers_end(void) {
    struct itimerval none;
    memset(&none, 0, sizeof none);
    while (timers_live > 0) syscall(SYS_timer_delete, timer_ids[--timers_live]);
    for (int which = 0; which < 3; which++) syscall(SYS_setitimer, which, &none, NULL);
}
