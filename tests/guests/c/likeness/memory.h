/* Memory: an arena of pages at one address, what the calls do to it, and what is to be found there afterwards. */
#include <setjmp.h>

#define ARENA ((unsigned char *)0x300000000000)
#define PAGES 32
#define PAGE 4096UL

static sigjmp_buf touched;
static volatile int fault_signal, fault_code;
static volatile int probing;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    if (!probing) {
        signal(number, SIG_DFL);
        return;
    }
    fault_signal = number, fault_code = info->si_code;
    siglongjmp(touched, 1);
}

/* Touches a page: 0, or what came of it: 'm' nothing mapped, 'x' not allowed, 'b' beyond the file, '?' else. */
static char touch(volatile unsigned char *at, int writes) {
    fault_signal = 0;
    probing = 1;
    if (sigsetjmp(touched, 1) == 0) {
        if (writes) *at = (unsigned char)(*at + 1); else (void)*at;
    }
    probing = 0;
    if (fault_signal == 0) return 0;
    if (fault_signal == SIGSEGV) return fault_code == SEGV_MAPERR ? 'm' : fault_code == SEGV_ACCERR ? 'x' : '?';
    return fault_signal == SIGBUS && fault_code == BUS_ADRERR ? 'b' : '?';
}

/* What is in so many pages from one on: a letter for those that cannot be read, a digit of the content's sum else. */
static void look(unsigned first, unsigned count) {
    say(" |");
    for (unsigned i = first; i < first + count && i < PAGES; i++) {
        char cannot = touch(ARENA + i * PAGE, 0);
        if (cannot) {
            say("%c", cannot);
        } else {
            uint32_t sum = checksum(ARENA + i * PAGE, PAGE);
            sum ^= sum >> 16;
            say("%02x", (sum ^ sum >> 8) & 0xff);
        }
        say(",");
    }
    say("|");
}

/* A file was mapped in this sequence, and so that others see what is written. */
static int maps_file;

static unsigned some_page(void) { return pick(PAGES); }
static unsigned some_count(void) { return CHOOSE(1u, 1u, 1u, 2u, 2u, 3u, 4u, 8u); }

/* Within the arena. */
static unsigned cut(unsigned first, unsigned count) { return first + count > PAGES ? PAGES - first : count; }

static int some_protection(void) { return CHOOSE(3, 3, 3, 3, 1, 1, 0, 2, 5, 7, 8, 0x20); }

static void map_call(void) {
    unsigned first = some_page(), count = cut(first, some_count());
    int protection = some_protection(), kind = CHOOSE(MAP_PRIVATE, MAP_PRIVATE, MAP_PRIVATE, MAP_SHARED, MAP_SHARED, 0, 3, 4);
    int place = CHOOSE(MAP_FIXED, MAP_FIXED, MAP_FIXED, MAP_FIXED_NOREPLACE, 0), extra = CHOOSE(0, 0, 0, MAP_POPULATE, MAP_NORESERVE, MAP_STACK, MAP_LOCKED & 0);
    unsigned long address = (unsigned long)(ARENA + first * PAGE), length = count * PAGE;
    long offset = 0;
    int number = -1;
    if (kind == 3 && place == MAP_FIXED_NOREPLACE && !may(TWO_FAULTS)) place = MAP_FIXED;
    say("mmap(");
    if (chance(20)) address += 8;
    if (chance(20)) length = CHOOSE(0UL, PAGE - 1, 1UL, 1UL << 50, ~0UL);
    say("%+ld, %#lx, %d, %#x, ", address - (unsigned long)ARENA, length, protection, kind | place | extra);
    if (length > PAGES * PAGE) extra |= MAP_NORESERVE;
    if (chance(2)) {
        number = some_descriptor(OF(FILE_KIND));
        struct stat status;
        if (fstat(number, &status) == 0 && S_ISSOCK(status.st_mode) && !may(MAPPED_SOCKETS)) number = -1, say("!");
        maps_file = 1;
        offset = CHOOSE(0L, 0L, 4096L, 8192L, 100L, -4096L, 1L << 40);
    } else {
        extra |= MAP_ANONYMOUS;
        say("none");
    }
    say(", %ld)", offset);
    long got = syscall(SYS_mmap, address, length, protection, kind | place | extra, number, offset);
    long at = (got - (long)ARENA) / (long)PAGE;
    if (got < 0 && got > -4096) { gave(got); return; }
    if (got >= 0 && (at < 0 || at >= PAGES)) {
        say(" = elsewhere");
        syscall(SYS_munmap, got, length);
        return;
    }
    gave(got < 0 ? got : got - (long)ARENA);
    if (got >= 0) {
        unsigned long after = (length + PAGE - 1) / PAGE;
        if ((unsigned long)at + after > PAGES) syscall(SYS_munmap, ARENA + PAGES * PAGE, ((unsigned long)at + after - PAGES) * PAGE);
        look((unsigned)at, (unsigned)after);
    }
}

/* A range for a call that changes what is mapped. */
static void some_range(unsigned long *address, unsigned long *length) {
    unsigned first = some_page(), count = cut(first, some_count());
    *address = (unsigned long)(ARENA + first * PAGE), *length = count * PAGE;
    if (chance(16)) *address += CHOOSE(1, 8, 4095);
    if (chance(16)) *length = CHOOSE(0UL, *length - 1, 1UL, ~0UL);
    say("%+ld, %#lx", *address - (unsigned long)ARENA, *length);
}

static void look_there(unsigned long address, unsigned long length) {
    unsigned first = (unsigned)((address - (unsigned long)ARENA) / PAGE);
    look(first ? first - 1 : 0, length > PAGES * PAGE ? 3 : (unsigned)(length / PAGE) + 2);
}

static void remap_call(void) {
    unsigned long address, old;
    unsigned to = some_page(), count = cut(to, some_count());
    int flags = CHOOSE(0, MREMAP_MAYMOVE | MREMAP_FIXED, MREMAP_MAYMOVE | MREMAP_FIXED, MREMAP_FIXED, 8,
                       MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP);
    unsigned long new = count * PAGE;
    if (!may(LEFT_BEHIND)) flags &= ~MREMAP_DONTUNMAP;
    say("mremap(");
    some_range(&address, &old);
    if ((flags & MREMAP_FIXED) && old > PAGE && !may(SEVERAL_MAPPINGS)) old = PAGE, say(" first");
    if (chance(24)) new = CHOOSE(0UL, 1UL, ~0UL);
    if ((flags & MREMAP_DONTUNMAP) && chance(2)) new = old;
    int is_there = touch((unsigned char *)(address & ~(PAGE - 1)), 0) != 'm';
    int overlaps = (unsigned long)(ARENA + to * PAGE) < address + old && address < (unsigned long)(ARENA + to * PAGE) + new;
    if ((!is_there || ((old + PAGE - 1) & ~(PAGE - 1)) == 0 || overlaps) && !may(TWO_FAULTS)) {
        say(" not now)");
        return;
    }
    say(", %#lx, %#x, %+ld)", new, flags, (long)to * 4096);
    long got = syscall(SYS_mremap, address, old, new, flags, ARENA + to * PAGE);
    gave(got < 0 ? got : got - (long)ARENA);
    look_there(address, old > new && new < PAGES * PAGE ? old : new < PAGES * PAGE ? new : 0);
    if (got >= 0) look(to, count);
}

static void advise_call(void) {
    unsigned long address, length;
    int advice = CHOOSE(MADV_DONTNEED, MADV_DONTNEED, MADV_DONTNEED, MADV_NORMAL, MADV_WILLNEED, MADV_DONTFORK, MADV_DOFORK,
                        MADV_DONTDUMP, MADV_RANDOM, 77, -1, MADV_DODUMP, MADV_COLD, MADV_SEQUENTIAL, 22, 23);
    say("madvise(");
    some_range(&address, &length);
    say(", %d)", advice);
    gave(syscall(SYS_madvise, address, length, advice));
    look_there(address, length);
}

static void touch_call(void) {
    unsigned page = some_page(), writes = !chance(3), at = CHOOSE(0u, 1u, 100u, 4095u);
    say("%s(%+ld)", writes ? "store" : "load", (long)(page * PAGE + at));
    char cannot = touch(ARENA + page * PAGE + at, (int)writes);
    if (cannot) say(" = %c", cannot); else say(" = done");
    look(page, 1);
}

/* A call of the kernel's that reads or writes the arena, whatever is there. */
static void through_call(void) {
    unsigned page = some_page(), offset = CHOOSE(0u, 8u, 4000u), length = CHOOSE(1u, 8u, 96u, 100u);
    int writes = chance(2);
    say("%s(", writes ? "pwrite64" : "pread64");
    int number = some_descriptor(OF(FILE_KIND));
    long from = CHOOSE(0L, 1L, 4090L, 4096L, 8000L);
    /* A write that fails may make a file longer, on some file systems. */
    if (writes && touch(ARENA + page * PAGE + offset, 0) != 0) from = 0, failed_writes = 1;
    say(", %+ld, %u, %ld)", (long)(page * PAGE + offset), length, from);
    gave(syscall(writes ? SYS_pwrite64 : SYS_pread64, number, ARENA + page * PAGE + offset, length, from));
    look(page, 2);
}

static void range_call(void) {
    unsigned long address, length;
    /* What is locked is no longer shown as the file has it. */
    unsigned which = pick(maps_file && !may(UNTOUCHED_LOCKS) ? 3 : 4);
    say(which == 0 ? "munmap(" : which == 1 ? "mprotect(" : which == 2 ? "msync(" : "mlock(");
    some_range(&address, &length);
    int how = which == 1 ? some_protection() : CHOOSE(MS_SYNC, MS_ASYNC, MS_SYNC | MS_ASYNC, 0, MS_INVALIDATE, 8);
    if (which == 1 || which == 2) say(", %d", how);
    say(")");
    for (unsigned page = 0; which == 3 && page < PAGES && !may(UNTOUCHED_LOCKS); page++) {
        char cannot = touch(ARENA + page * PAGE, 0);
        if (cannot != 'b' && cannot != 'x') continue;
        say(" not now");
        return;
    }
    gave(which == 0   ? syscall(SYS_munmap, address, length)
         : which == 1 ? syscall(SYS_mprotect, address, length, how)
         : which == 2 ? syscall(SYS_msync, address, length, how)
                      : syscall(SYS_mlock, address, length));
    /* What is locked is treated otherwise; here it always is. */
    for (unsigned page = 0; which == 3 && page < PAGES; page++) syscall(SYS_munlock, ARENA + page * PAGE, PAGE);
    look_there(address, length);
}

/* The break, from where it is in a fresh program: only differences are said. */
static unsigned long break_start;

static void break_call(void) {
    long by = CHOOSE(0L, 1L, 4096L, 100000L, 8192L, -4096L, 1L << 46);
    unsigned long old = (unsigned long)syscall(SYS_brk, 0), wanted = old + (unsigned long)by;
    if (wanted < break_start) wanted = break_start;
    say("brk(%+ld)", wanted - break_start);
    unsigned long new = (unsigned long)syscall(SYS_brk, wanted);
    say(" = %+ld", new - break_start);
    if (new > old && new - old < 1 << 20) say(" #%08x", checksum((void *)old, new - old));
    for (unsigned long at = old; at < new && new - old < 1 << 20; at += 1000) *(unsigned char *)at = 0xa5;
}

static void mincore_call(void) {
    unsigned long address, length;
    say("mincore(");
    some_range(&address, &length);
    say(")");
    gave(syscall(SYS_mincore, address, length, buffer));
}

static void memory_call(void) {
    if (live_of(OF(FILE_KIND)) == NULL && chance(3)) { open_call(); return; }
    switch (pick(20)) {
    case 0: case 1: case 2: case 3: case 4: map_call(); break;
    case 5: case 6: case 7: case 8: range_call(); break;
    case 9: case 10: remap_call(); break;
    case 11: case 12: advise_call(); break;
    case 13: break_call(); break;
    case 14: mincore_call(); break;
    case 15: through_call(); break;
    case 16: if (live_of(OF(FILE_KIND))) { if (chance(2)) write_call(); else truncate_call(); look(0, PAGES); break; }
        /* fall through */
    default: touch_call();
    }
}

static void memory_start(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    break_start = ((unsigned long)sbrk(0) + 2 * PAGE) & ~(PAGE - 1);
    syscall(SYS_brk, break_start);
}

/* Something to begin with. */
static void memory_begin(void) {
    maps_file = failed_writes = has_unwritten = 0;
    mmap(ARENA + 4 * PAGE, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    mmap(ARENA + 22 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    for (unsigned page = 5; page < 26; page += 3)
        if (page < 20 || page > 21) memset(ARENA + page * PAGE, (int)page, PAGE);
}

static void memory_end(void) {
    syscall(SYS_munmap, ARENA, PAGES * PAGE);
    syscall(SYS_brk, break_start);
}
