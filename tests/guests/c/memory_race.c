/* Threads that change the memory others use, and a look at whether anybody ever sees what is gone: old contents, old
   rights, an old place, somebody else's frame. Arguments: threads (4), rounds (400).

   One thread changes, the others look all the time. Before a change it says that it begins, after it that it is done;
   who looked while a change was done and the next had not begun must have seen exactly that one. */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "team.h"

#define PAGE 4096UL
#define WORDS (PAGE / 8)
#define PAGES 4
#define THREADS_MAX 64
#define DATA_PAGES 192
#define FIRST 4242UL
#define HUGE (2UL << 20)

typedef volatile uint64_t cell;

static int threads = 4, rounds = 400;
static atomic_ulong begun, done, waiting, opened, wrong, seen, faults;
static atomic_int stop;
static pthread_barrier_t barrier;
static cell *area;

/* Pages of the program, which lie in frames that nobody may write to until they were copied. */
static cell data[DATA_PAGES][WORDS] __attribute__((aligned(4096))) = {[0 ... DATA_PAGES - 1] = {[0 ... WORDS - 1] = 77}};
static cell stormed[DATA_PAGES][WORDS] __attribute__((aligned(4096))) = {[0 ... DATA_PAGES - 1] = {1000}};
static const volatile uint64_t constant[DATA_PAGES][WORDS]
    __attribute__((aligned(4096))) = {[0 ... DATA_PAGES - 1] = {[0 ... WORDS - 1] = 99}};

static __thread sigjmp_buf back;
static __thread volatile int may_fault;

static void faulted(int number, siginfo_t *information, void *context) {
    (void)context;
    if (!may_fault || (information->si_code != SEGV_MAPERR && information->si_code != SEGV_ACCERR)) {
        static const char text[] = "a fault that should not be\n";
        if (write(1, text, sizeof text - 1)) {}
        _exit(97);
    }
    siglongjmp(back, number);
}

/* Reads, or writes if there is something to write; whether that was possible. */
static int touches(cell *at, uint64_t *value, int write) {
    may_fault = 1;
    if (sigsetjmp(back, 1) != 0) {
        may_fault = 0;
        atomic_fetch_add(&faults, 1);
        return 0;
    }
    if (write) *at = *value;
    else *value = *at;
    may_fault = 0;
    return 1;
}

/* A barrier that keeps the cores in the program as far as they go. */
static void meet(void) {
    unsigned long now = atomic_load(&opened);
    if (atomic_fetch_add(&waiting, 1) + 1 == (unsigned long)threads) {
        atomic_store(&waiting, 0);
        atomic_fetch_add(&opened, 1);
    } else {
        for (int i = 0; atomic_load(&opened) == now; i++)
            if (i % 256 == 255) sched_yield();
    }
}

static void *map(void *at, unsigned long bytes, int rights) {
    int fixed = at ? MAP_FIXED : 0;
    void *gave = mmap(at, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    CHECK(gave != MAP_FAILED && (!at || gave == at));
    return gave;
}

static void note_wrong(const char *what, uint64_t saw, uint64_t expected) {
    if (atomic_fetch_add(&wrong, 1) < 3) {
        printf("%s: saw %lu, not %lu\n", what, (unsigned long)saw, (unsigned long)expected);
        fflush(stdout);
    }
}

/* How a change is made that leaves zeros: by a new mapping, by advice, by two calls. */
static void renew(unsigned long round) {
    switch (round % 3) {
    case 0:
        map((void *)area, PAGES * PAGE, PROT_READ | PROT_WRITE);
        break;
    case 1:
        CHECK(madvise((void *)area, PAGES * PAGE, MADV_DONTNEED) == 0);
        break;
    default:
        CHECK(munmap((void *)area, PAGES * PAGE) == 0);
        map((void *)area, PAGES * PAGE, PROT_READ | PROT_WRITE);
    }
}

/* Makes one change after the other, and gives the others time to look after each. */
static void changes(void (*change)(unsigned long)) {
    for (unsigned long round = 1; round <= (unsigned long)rounds; round++) {
        atomic_store(&begun, round);
        change(round);
        atomic_store(&done, round);
        unsigned long until = atomic_load(&seen) + 2;
        for (int i = 0; i < 200 && atomic_load(&seen) < until; i++) sched_yield();
    }
    atomic_store(&stop, 1);
}

static void change_contents(unsigned long round) {
    renew(round);
    for (int page = 0; page < PAGES; page++) {
        if (area[page * WORDS] != 0) note_wrong("new memory", area[page * WORDS], 0);
        area[page * WORDS] = round;
    }
}

static void looks_at_contents(int me) {
    for (unsigned long i = 0; !atomic_load(&stop); i++) {
        unsigned long page = (i + (unsigned long)me) % PAGES;
        unsigned long was_done = atomic_load(&done);
        uint64_t value = 0, mine = ~0UL;
        int there = touches(&area[page * WORDS], &value, 0);
        /* Writes go to what is there now, or nowhere: never into a frame that is somebody else's by now. */
        touches(&area[page * WORDS + 8 + (unsigned long)me], &mine, 1);
        if (atomic_load(&begun) == was_done && was_done > 0) {
            if (!there || value != was_done) note_wrong("contents", value, was_done);
            atomic_fetch_add(&seen, 1);
        }
        if (i % 16 == 15) sched_yield();
    }
}

/* Takes memory that was just freed, and finds nothing in it. */
static void takes_fresh(void) {
    while (!atomic_load(&stop)) {
        cell *fresh = map(NULL, 8 * PAGE, PROT_READ | PROT_WRITE);
        for (unsigned long i = 0; i < 8 * WORDS; i++)
            if (fresh[i] != 0) note_wrong("fresh memory", fresh[i], 0);
        for (unsigned long i = 0; i < 8 * WORDS; i++) fresh[i] = 0xf5e5;
        for (int i = 0; i < 4; i++) sched_yield();
        for (unsigned long i = 0; i < 8 * WORDS; i++)
            if (fresh[i] != 0xf5e5) note_wrong("own memory", fresh[i], 0xf5e5);
        munmap((void *)fresh, 8 * PAGE);
    }
}

static const int rights[] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE};

static void change_rights(unsigned long round) {
    CHECK(mprotect((void *)area, PAGES * PAGE, rights[round % 3]) == 0);
}

static void looks_at_rights(int me) {
    for (unsigned long i = 0; !atomic_load(&stop); i++) {
        cell *at = &area[(i + (unsigned long)me) % PAGES * WORDS + 8 + (unsigned long)me];
        unsigned long was_done = atomic_load(&done);
        uint64_t value = 0, mine = i;
        int read = touches(at, &value, 0), written = touches(at, &mine, 1);
        if (atomic_load(&begun) == was_done && was_done > 0) {
            int now = rights[was_done % 3];
            if (read != ((now & PROT_READ) != 0)) note_wrong("right to read", (uint64_t)read, (uint64_t)now);
            if (written != ((now & PROT_WRITE) != 0)) note_wrong("right to write", (uint64_t)written, (uint64_t)now);
            atomic_fetch_add(&seen, 1);
        }
        if (i % 16 == 15) sched_yield();
    }
}

/* The pages go to another place and back, contents and all. */
static void change_place(unsigned long round) {
    char *there = (char *)area + 16 * PAGE, *here = (char *)area;
    char *from = round % 2 ? here : there, *to = round % 2 ? there : here;
    CHECK(mremap(from, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
}

static void looks_at_place(int me) {
    for (unsigned long i = 0; !atomic_load(&stop); i++) {
        cell *here = &area[(i + (unsigned long)me) % PAGES * WORDS], *there = here + 16 * WORDS;
        unsigned long was_done = atomic_load(&done);
        uint64_t first = 0, second = 0;
        int at_first = touches(here, &first, 0), at_second = touches(there, &second, 0);
        if (atomic_load(&begun) == was_done && was_done > 0) {
            int away = was_done % 2;
            if (at_first == away || at_second != away) note_wrong("place", (uint64_t)at_first, (uint64_t)!away);
            if ((away ? second : first) != FIRST) note_wrong("moved contents", away ? second : first, FIRST);
            atomic_fetch_add(&seen, 1);
        }
        if (i % 16 == 15) sched_yield();
    }
}

/* System calls copy from and to memory that comes and goes: what they copy is what was there, or they fail. */
static void copies(int me) {
    static __thread uint64_t buffer[WORDS];
    int ends[2];
    CHECK(pipe(ends) == 0);
    for (unsigned long i = 0; !atomic_load(&stop); i++) {
        cell *at = &area[(i + (unsigned long)me) % PAGES * WORDS];
        ssize_t count = write(ends[1], (void *)at, PAGE);
        CHECK(count == (ssize_t)PAGE || (count == -1 && errno == EFAULT));
        if (count < 0) continue;
        CHECK(read(ends[0], buffer, PAGE) == (ssize_t)PAGE);
        if (buffer[0] > atomic_load(&begun) && buffer[0] != FIRST) note_wrong("copied", buffer[0], atomic_load(&begun));
        for (unsigned long word = 8 + THREADS_MAX; word < WORDS; word++)
            if (buffer[word] != 0) note_wrong("copied", buffer[word], 0);
    }
    close(ends[0]);
    close(ends[1]);
}

static void begin_exercise(int me) {
    pthread_barrier_wait(&barrier);
    if (me == 0) {
        atomic_store(&begun, 0);
        atomic_store(&done, 0);
        atomic_store(&seen, 0);
        atomic_store(&faults, 0);
        atomic_store(&stop, 0);
        map((void *)area, 32 * PAGE, PROT_READ | PROT_WRITE);
        for (int page = 0; page < PAGES; page++) area[(unsigned long)page * WORDS] = FIRST;
        map((char *)area + 16 * PAGE, 16 * PAGE, PROT_NONE);
    }
    pthread_barrier_wait(&barrier);
}

static void end_exercise(int me, const char *name, int with_faults) {
    pthread_barrier_wait(&barrier);
    if (me == 0) {
        int looked = atomic_load(&seen) > 10, faulted = !with_faults || atomic_load(&faults) > 0;
        printf("%s: wrong %lu, looked %d, faults as expected %d\n", name, atomic_load(&wrong), looked, faulted);
        fprintf(stderr, "%s: %lu looks, %lu faults\n", name, atomic_load(&seen), atomic_load(&faults));
    }
    pthread_barrier_wait(&barrier);
}

/* All cores have read a page of the program; one writes to it, and all must see that at once. */
static void copy_on_write(int me) {
    static atomic_ulong written;
    for (unsigned long page = 0; page < DATA_PAGES; page++) {
        if (data[page][5] != 77) note_wrong("data", data[page][5], 77);
        meet();
        if (page % (unsigned long)threads == (unsigned long)me) {
            data[page][5] = page + 100;
            atomic_store(&written, page + 1);
        }
        for (int i = 0; atomic_load(&written) != page + 1; i++)
            if (i % 256 == 255) sched_yield();
        if (data[page][5] != page + 100) note_wrong("written data", data[page][5], page + 100);
        if (data[page][6] != 77) note_wrong("data beside it", data[page][6], 77);
        meet();
    }
}

/* All cores touch the same page for the first time at the same moment: there is one page afterwards. */
static void storms(int me) {
    static cell *_Atomic fresh;
    for (int round = 0; round < rounds; round++) {
        if (me == 0) fresh = map(NULL, round % 32 == 0 ? 2 * HUGE : PAGE, PROT_READ | PROT_WRITE);
        meet();
        __atomic_fetch_add(&fresh[round % (int)WORDS], 1, __ATOMIC_SEQ_CST);
        meet();
        uint64_t count = fresh[round % (int)WORDS];
        if (count != (uint64_t)threads) note_wrong("storm", count, (uint64_t)threads);
        meet();
        if (me == 0) munmap((void *)fresh, round % 32 == 0 ? 2 * HUGE : PAGE);
    }
    for (int page = 0; page < DATA_PAGES; page++) {
        meet();
        __atomic_fetch_add(&stormed[page][0], 1, __ATOMIC_SEQ_CST);
        if (constant[page][me] != 99) note_wrong("constant", constant[page][me], 99);
        meet();
        if (stormed[page][0] != 1000 + (uint64_t)threads) note_wrong("storm on data", stormed[page][0], 1000);
    }
}

static void *member(void *number) {
    int me = (int)(long)number;
    begin_exercise(me);
    if (me == 0) changes(change_contents);
    else if (me == 1 && threads > 3) takes_fresh();
    else looks_at_contents(me);
    end_exercise(me, "contents", 0);
    begin_exercise(me);
    if (me == 0) changes(change_rights);
    else looks_at_rights(me);
    end_exercise(me, "rights", 1);
    begin_exercise(me);
    if (me == 0) changes(change_place);
    else looks_at_place(me);
    end_exercise(me, "place", 1);
    begin_exercise(me);
    if (me == 0) changes(change_contents);
    else if (me % 2) copies(me);
    else looks_at_contents(me);
    end_exercise(me, "copies", 0);
    copy_on_write(me);
    storms(me);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) threads = atoi(argv[1]);
    if (argc > 2) rounds = atoi(argv[2]);
    CHECK(threads >= 3 && threads <= THREADS_MAX);
    struct sigaction action = {.sa_sigaction = faulted, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    /* Between pages that nobody may touch: no other mapping fits where these are for a moment not there. */
    area = (cell *)((char *)map(NULL, 64 * PAGE, PROT_NONE) + 16 * PAGE);
    GIVES(0, pthread_barrier_init(&barrier, NULL, (unsigned)threads));
    team(threads, member);
    printf("copy on write and storms: wrong %lu\n", atomic_load(&wrong));
    return atomic_load(&wrong) != 0;
}
