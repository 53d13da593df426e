/* Fills every kind of memory with a pattern, says "filled", waits until its standard input ends, and ends as it was
   told. Arguments: the pattern's seed, how to end (exit, fault, spin), a file to map, a number of threads. Threads hold
   the pattern in memory of their own and in all their registers; the first half of them runs, the others sleep, and it
   is one that runs that faults. How to end may begin with "last-": then only the last rank ends so, the others exit,
   and each has a pattern of its own, rank 0 that of the seed, rank 1 that of the next seed, and so on. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include "team.h"

#include "futex.h"
#include "pattern.h"

#define PAGE 4096UL
#define ALIGNED __attribute__((aligned(PAGE)))

static unsigned char data[3 * PAGE] ALIGNED = {1};
static unsigned char zeroed[16 * PAGE] ALIGNED;
static unsigned char sealed[PAGE] ALIGNED = {1};
static __thread unsigned char of_thread[2 * PAGE];

/* A page of code that is never executed. */
__attribute__((noipa, aligned(PAGE), section(".text.secret"))) static void code(void) {
    __asm__ volatile(".skip 8000, 0x90");
}

static unsigned char *map(int fd, unsigned long bytes) {
    int flags = MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0);
    unsigned char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (at == MAP_FAILED) exit(90);
    return at;
}

static void change(void *at, unsigned long bytes, int rights) {
    if (mprotect(at, bytes, rights) != 0) exit(91);
}

/* What the instructions of threads use: the pattern, the word they sleep at, how often a thread went round, and whether
   it is to fault. */
unsigned long words[4] ALIGNED;
word bed;
__thread volatile unsigned long rounds, faults;

static struct { volatile unsigned long *rounds, *faults; } runners[32];
static int runners_count;
static atomic_ulong cores;
static atomic_int ready;

#define IN_EACH_VECTOR(instruction) \
    ".irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n" instruction "\\number\n.endr\n"
#define IN_EACH_REGISTER \
    ".irp name, rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15\n" \
    "mov words(%%rip), %%\\name\n.endr\n"
/* tkill(gettid(), SIGUSR1) */
#define SIGNAL_ITSELF "mov $186, %%eax\n syscall\n mov %%eax, %%edi\n mov $10, %%esi\n mov $200, %%eax\n syscall\n"

/* The pattern in all registers but the stack pointer, as wide as they are, also while a handler runs; then round and
   round, or asleep. Nothing is put back, since this does not end. */
static __attribute__((noreturn)) void hold(int sleeps) {
    int bytes = __builtin_cpu_supports("avx512f") ? 64 : __builtin_cpu_supports("avx") ? 32 : 16;
    __asm__ volatile(
        "cmp $32, %0\n ja 64f\n je 32f\n" IN_EACH_VECTOR("movdqa words(%%rip), %%xmm") "jmp 1f\n"
        "32:" IN_EACH_VECTOR("vmovdqa words(%%rip), %%ymm") "jmp 1f\n"
        "64:" IN_EACH_VECTOR("vbroadcasti64x4 words(%%rip), %%zmm")
        "1: test %1, %1\n" IN_EACH_REGISTER "jnz 3f\n" SIGNAL_ITSELF IN_EACH_REGISTER
        "2: pause\n incq %%fs:rounds@tpoff\n cmpq $0, %%fs:faults@tpoff\n je 2b\n movq $0, 0\n"
        "3:" SIGNAL_ITSELF IN_EACH_REGISTER
        "4: mov $202, %%eax\n lea bed(%%rip), %%rdi\n mov $128, %%esi\n xor %%edx, %%edx\n xor %%r10d, %%r10d\n"
        "syscall\n jmp 4b" ::"c"(bytes), "a"(sleeps) : "memory");
    __builtin_unreachable();
}

static void handler(int signal) {
    (void)signal;
}

/* Fills what is a thread's own, and leaves some of it with the kernel. */
static void *fill_and_hold(void *number) {
    unsigned char stack[8 * PAGE] ALIGNED;
    int ends[2], runs = (long)number < runners_count;
    for (unsigned long i = 0; i < sizeof stack; i += sizeof words) memcpy(stack + i, words, sizeof words);
    memcpy(of_thread, stack, sizeof of_thread);
    if (pipe(ends) != 0 || write(ends[1], stack, PAGE) != PAGE) exit(95);
    /* No such time. */
    if (nanosleep((struct timespec *)words, NULL) == 0) exit(96);
    if (runs) {
        runners[(long)number].rounds = &rounds;
        runners[(long)number].faults = &faults;
        atomic_fetch_or(&cores, 1UL << sched_getcpu());
    }
    atomic_fetch_add(&ready, 1);
    hold(!runs);
}

/* Comes back when all are in place: those that run have run in turn with the others of their cores. */
static void begin_threads(int count, unsigned long seed) {
    static word other_bed;
    runners_count = count / 2;
    pattern_fill(words, sizeof words, seed);
    signal(SIGUSR1, handler);
    for (int i = 0; i < count; i++) begin(fill_and_hold, i);
    while (atomic_load(&ready) < count) sched_yield();
    for (long asleep = 0; asleep < count - runners_count;)
        asleep += futex(&bed, FUTEX_REQUEUE | FUTEX_PRIVATE, 0, (void *)INT_MAX, &other_bed, 0);
    for (int i = 0; i < 3 * runners_count; i++) {
        unsigned long before = *runners[i % runners_count].rounds;
        while (*runners[i % runners_count].rounds == before) sched_yield();
    }
    /* A rank that shares its node has some of the cores. */
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) exit(98);
    if (count > 0 && __builtin_popcountl(cores) != CPU_COUNT(&allowed)) exit(97);
}

/* Eight words of it in registers that calls keep and in vector registers, all the time until the end. */
static void wait_and_end(const char *how, unsigned long seed) {
    unsigned long words[4] ALIGNED = {pattern_word(seed, 0), pattern_word(seed, 1), pattern_word(seed, 2),
                                      pattern_word(seed, 3)};
    char byte;
    if (write(1, "filled\n", 7) != 7) exit(92);
    if (strcmp(how, "spin") == 0) {
        __asm__ volatile("movdqa (%0), %%xmm3\n movdqa 16(%0), %%xmm9\n movq (%0), %%r12\n movq 8(%0), %%r13\n"
                         "0: pause\n jmp 0b" ::"r"(words) : "xmm3", "xmm9", "r12", "r13", "memory");
    }
    while (read(0, &byte, 1) > 0) {}
    if (strcmp(how, "fault") == 0 && runners_count > 0) {
        *runners[0].faults = 1;
        for (;;) pause();
    }
    if (strcmp(how, "fault") == 0) {
        __asm__ volatile("movdqa (%0), %%xmm3\n movdqa 16(%0), %%xmm9\n movq (%0), %%r12\n movq 8(%0), %%r13\n"
                         "movq $0, 0" ::"r"(words) : "xmm3", "xmm9", "r12", "r13", "memory");
    }
    __asm__ volatile("movdqa (%0), %%xmm3\n movdqa 16(%0), %%xmm9\n movq (%0), %%r12\n movq 8(%0), %%r13\n"
                     "mov $231, %%eax\n xor %%edi, %%edi\n syscall" ::"r"(words)
                     : "xmm3", "xmm9", "r12", "r13", "rax", "rdi", "rcx", "r11", "memory");
}

int main(int argc, char **argv) {
    unsigned long seed = strtoul(argv[1], NULL, 10);
    const char *how = argv[2];
    if (strncmp(how, "last-", 5) == 0) {
        unsigned long rank = strtoul(getenv("COPPICE_RANK"), NULL, 10);
        how = rank + 1 < strtoul(getenv("COPPICE_SIZE"), NULL, 10) ? "exit" : how + 5;
        seed += rank;
    }
    int fd = open(argc > 3 ? argv[3] : "/mapped", O_RDWR);
    if (fd < 0) return 93;
    pattern_fill(data, sizeof data, seed);
    pattern_fill(zeroed, sizeof zeroed, seed);
    pattern_fill(of_thread, sizeof of_thread, seed);
    void *heap = malloc(100000), *large = malloc(1 << 20);
    if (!heap || !large) return 94;
    pattern_fill(heap, 100000, seed);
    pattern_fill(large, 1 << 20, seed);

    unsigned char *file = map(fd, 16 * PAGE), *hidden = map(-1, 8 * PAGE), *executed = map(-1, 4 * PAGE);
    unsigned char *gone = map(-1, 8 * PAGE), *forgotten = map(-1, 8 * PAGE);
    pattern_fill(file, 16 * PAGE, seed);
    pattern_fill(hidden, 8 * PAGE, seed);
    change(hidden, 4 * PAGE, PROT_NONE);
    change(hidden + 4 * PAGE, 4 * PAGE, PROT_READ);
    pattern_fill(executed, 4 * PAGE, seed);
    change(executed, 4 * PAGE, PROT_READ | PROT_EXEC);
    pattern_fill(gone, 8 * PAGE, seed);
    munmap(gone, 8 * PAGE);
    pattern_fill(forgotten, 8 * PAGE, seed);
    madvise(forgotten, 8 * PAGE, MADV_DONTNEED);
    pattern_fill(sealed, sizeof sealed, seed);
    change(sealed, sizeof sealed, PROT_READ);
    change((void *)code, PAGE, PROT_READ | PROT_WRITE);
    pattern_fill((void *)code, PAGE, seed);
    change((void *)code, PAGE, PROT_READ | PROT_EXEC);

    unsigned char stack[40 * PAGE] ALIGNED;
    pattern_fill(stack, sizeof stack, seed);
    if (argc > 4) begin_threads(atoi(argv[4]), seed);
    wait_and_end(how, seed);
    return stack[0];
}
