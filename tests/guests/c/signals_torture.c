/* Threads send each other standard and real-time signals while they compute with vector registers and wait in all kinds
 * of calls. The checker at the end: no real-time signal was lost, doubled or overtaken by a later one of its sender, and
 * no handler changed a register. Arguments: threads, signals that each sends. */
#define _GNU_SOURCE
#include <errno.h>
#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* musl's compiler does not find the kernel's headers. */
#define FUTEX_WAIT_PRIVATE 128

#define THREADS_MAX 64
#define KINDS 4

struct member {
    pthread_t thread;
    pid_t tid;
    int index, ends[2];
    uint32_t word;
    atomic_long sent, taken, usual, wrong, interrupted;
    /* The number of the last signal of each kind from each sender. */
    uint32_t last[THREADS_MAX][KINDS];
    uint32_t next[THREADS_MAX][KINDS];
};

static struct member members[THREADS_MAX];
static int threads = 8;
static long each = 300;
static atomic_int ready, done;
static __thread struct member *self;

/* A value says who sent it, of which kind, and its number. */
static void real_time(int signal, siginfo_t *info, void *context) {
    uint32_t value = (uint32_t)info->si_value.sival_int, from = value >> 24, number = value & 0xffffff;
    uint32_t kind = (uint32_t)(signal - SIGRTMIN);
    int saved = errno;
    if (info->si_code != SI_QUEUE || info->si_pid != getpid() || kind >= KINDS || from >= THREADS_MAX
        || number != self->last[from][kind] + 1)
        self->wrong++;
    else
        self->last[from][kind] = number;
    self->taken++;
    /* Whatever the handler does with them, the registers are the interrupted function's afterwards. */
    __asm__ volatile("fninit; fldz; pxor %%xmm0, %%xmm0; pxor %%xmm1, %%xmm1; pxor %%xmm2, %%xmm2; pxor %%xmm8, %%xmm8;"
                     "pxor %%xmm12, %%xmm12; fstp %%st(0)" : : : "memory");
    if (__builtin_cpu_supports("avx")) __asm__ volatile("vzeroall" : : : "memory");
    errno = saved;
}

static void usual(int signal) {
    if (self) self->usual++;
}

static uint64_t chance(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

__attribute__((target("avx2"), noinline)) static int wide_is_kept(uint64_t seed) {
    __m256i sum = _mm256_set1_epi64x((long)seed), step = _mm256_set_epi64x(4, 3, 2, 1);
    for (int i = 0; i < 2000; i++) sum = _mm256_add_epi64(sum, _mm256_xor_si256(step, _mm256_set1_epi64x(i & 7)));
    uint64_t parts[4];
    _mm256_storeu_si256((__m256i *)parts, sum);
    for (uint64_t lane = 0; lane < 4; lane++) {
        uint64_t expected = seed;
        for (uint64_t i = 0; i < 2000; i++) {
            expected += (lane + 1) ^ (i & 7);
            __asm__ volatile("" : "+r"(expected));
        }
        if (parts[lane] != expected) return 0;
    }
    return 1;
}

__attribute__((noinline)) static int doubles_are_kept(uint64_t seed) {
    double x = (double)(seed & 1023) + 1, sum = 0;
    long double other = 0;
    for (int i = 1; i < 1000; i++) {
        sum += x * i;
        other += (long double)x;
    }
    return sum == x * 499500 && other == 999 * (long double)x;
}

/* One signal to somebody; a queue that is full is tried again. */
static void send(struct member *to, uint32_t kind) {
    uint32_t number = ++self->next[to->index][kind];
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_value.sival_int = (int)((uint32_t)self->index << 24 | number);
    while (syscall(SYS_rt_tgsigqueueinfo, getpid(), to->tid, SIGRTMIN + (int)kind, &info)) {
        if (errno != EAGAIN) {
            self->wrong++;
            return;
        }
        sched_yield();
    }
    to->sent++;
}

static void wait_somehow(uint64_t *state) {
    struct timespec little = {0, (long)(chance(state) % 200000)}, rest;
    char byte;
    switch (chance(state) % 4) {
    case 0:
        while (nanosleep(&little, &rest) && errno == EINTR) {
            self->interrupted++;
            if (rest.tv_sec || rest.tv_nsec > little.tv_nsec + 1000000) self->wrong++;
            little = rest;
        }
        break;
    case 1:
        if (syscall(SYS_futex, &self->word, FUTEX_WAIT_PRIVATE, 0, &little, NULL, 0) && errno == EINTR) self->interrupted++;
        break;
    case 2: {
        /* Somebody else writes; if nobody does, we did. */
        struct member *other = &members[chance(state) % (uint64_t)threads];
        if (write(self->ends[1], "x", 1) != 1 || write(other->ends[1], "y", 1) != 1) self->wrong++;
        while (read(self->ends[0], &byte, 1) < 0) {
            if (errno != EINTR) self->wrong++;
            self->interrupted++;
        }
        break;
    }
    default: {
        sigset_t set, before;
        sigfillset(&set);
        pthread_sigmask(SIG_SETMASK, &set, &before);
        if (!wide_is_kept(chance(state)) && __builtin_cpu_supports("avx2")) self->wrong++;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    }
}

static void *run(void *argument) {
    self = argument;
    self->tid = (pid_t)syscall(SYS_gettid);
    uint64_t state = 88172645463325252ull + (uint64_t)self->index * 7919;
    int has_avx2 = __builtin_cpu_supports("avx2");
    ready++;
    while (ready < threads) sched_yield();
    for (long i = 0; i < each; i++) {
        struct member *to = &members[chance(&state) % (uint64_t)threads];
        send(to, (uint32_t)(chance(&state) % KINDS));
        if (i % 3 == 0) syscall(SYS_tgkill, getpid(), to->tid, SIGUSR1);
        if (i % 7 == 0) kill(getpid(), SIGUSR2);
        if (has_avx2 && !wide_is_kept(chance(&state))) self->wrong++;
        if (!doubles_are_kept(chance(&state))) self->wrong++;
        if (i % 4 == 0) wait_somehow(&state);
    }
    done++;
    /* Others may still send. */
    struct timespec little = {0, 1000000};
    while (done < threads || self->taken < self->sent) nanosleep(&little, NULL);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) threads = atoi(argv[1]);
    if (argc > 2) each = atol(argv[2]);
    if (threads < 1 || threads > THREADS_MAX) return 2;
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART, .sa_sigaction = real_time};
    for (int kind = 0; kind < KINDS; kind++) {
        action.sa_flags = SA_SIGINFO | (kind & 1 ? SA_RESTART : 0);
        /* Real-time signals are not overtaken by others of their kind only. */
        sigemptyset(&action.sa_mask);
        sigaction(SIGRTMIN + kind, &action, NULL);
    }
    action = (struct sigaction){.sa_handler = usual};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    for (int i = 0; i < threads; i++) {
        members[i].index = i;
        if (pipe(members[i].ends)) return 3;
    }
    sigset_t set;
    sigfillset(&set);
    /* Signals for the process go to the members, which know where to count them. */
    for (int i = 0; i < threads; i++)
        if (pthread_create(&members[i].thread, NULL, run, &members[i])) return 4;
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    long sent = 0, taken = 0, wrong = 0, some = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(members[i].thread, NULL);
        sent += members[i].sent;
        taken += members[i].taken;
        wrong += members[i].wrong;
        some += members[i].usual;
    }
    for (int from = 0; from < threads; from++)
        for (int to = 0; to < threads; to++)
            for (int kind = 0; kind < KINDS; kind++)
                if (members[from].next[to][kind] != members[to].last[from][kind]) wrong++;
    printf("sent %ld, taken %ld, wrong %ld, standard ones %d\n", sent, taken, wrong, some > 0);
    return wrong || sent != taken || sent != threads * each;
}
