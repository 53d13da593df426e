/* Makes sequences of random system calls and prints what each of them said, so that a node can be compared with Linux
   call by call:  likeness SEED FIRST COUNT CALLS [FAMILY | now]  |  likeness differences

   Sequence N of a seed depends on nothing but the two numbers: it starts in a fresh directory with nothing open, mapped
   or pending, and takes all it made away again, for which it wants an empty directory to begin with. Arguments come
   from what is there (live descriptors, a small tree of names, an arena of pages at one address) and now and then from
   what is not. What two machines may well say differently (inode numbers, times, ports) is not printed or printed in
   symbols, and nothing waits for time to pass. */
#include "likeness/common.h"
#include "likeness/differences.h"
#include "likeness/descriptors.h"
#include "likeness/names.h"
#include "likeness/status.h"
#include "likeness/files.h"
#include "likeness/memory.h"
#include "likeness/channels.h"
#include "likeness/readiness.h"
#include "likeness/sockets.h"
#include "likeness/signals.h"
#include "likeness/timers.h"
#include "likeness/limits.h"
#include "likeness/carried.h"
#include "likeness/process.h"

static const struct family {
    const char *name;
    unsigned weight;
    void (*call)(void);
} families[] = {
    {"files", 5, files_call},       {"names", 4, names_call},         {"status", 3, status_call},
    {"descriptors", 2, descriptors_call}, {"memory", 5, memory_call}, {"channels", 4, channels_call},
    {"readiness", 3, readiness_call}, {"sockets", 4, sockets_call},   {"signals", 4, signals_call},
    {"timers", 2, timers_call},     {"limits", 1, limits_call},
    {"carried", 3, carried_call},   {"process", 2, process_call},
};
#define FAMILIES (sizeof families / sizeof *families)

/* One sequence: of one or two families most of the time, so that their calls meet, or of all. */
static void sequence(unsigned long seed, unsigned long number, unsigned calls, const char *only) {
    rng_start(seed, number);
    unsigned first = pick(FAMILIES), second = pick(FAMILIES), mixed = chance(4);
    enter_fresh_directory();
    memory_begin();
    for (unsigned at = 0; at < 3; at++)
        add_live(openat(AT_FDCWD, at == 2 ? "b" : at == 1 ? "d" : "a", at == 2 ? O_RDONLY : O_RDWR), at == 2 ? DIRECTORY : FILE_KIND);
    for (unsigned at = 0; at < calls; at++) {
        unsigned family = first;
        if (mixed) {
            unsigned total = 0, ticket;
            for (unsigned i = 0; i < FAMILIES; i++) total += families[i].weight;
            for (ticket = pick(total), family = 0; ticket >= families[family].weight; family++)
                ticket -= families[family].weight;
        } else if (chance(3)) {
            family = second;
        }
        for (unsigned i = 0; only != NULL && i < FAMILIES; i++)
            if (strcmp(families[i].name, only) == 0) family = i;
        begin_line(number, at);
        families[family].call();
        signals_tell();
        end_line();
    }
    process_end();
    limits_end();
    timers_end();
    signals_end();
    memory_end();
    descriptors_end();
    leave_directory();
    flush();
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "differences") == 0) {
        for (unsigned i = 0; i < DIFFERENCES; i++) printf("%s\n", differences[i]);
        return 0;
    }
    if (argc < 5) return 2;
    unsigned long seed = strtoul(argv[1], NULL, 0), first = strtoul(argv[2], NULL, 0), count = strtoul(argv[3], NULL, 0);
    unsigned calls = (unsigned)strtoul(argv[4], NULL, 0);
    const char *only = argc > 5 ? argv[5] : NULL;
    if (only != NULL && strcmp(only, "now") == 0) flushes_every_line = 1, only = NULL;
    /* What whoever started this left open would take numbers. */
    syscall(SYS_close_range, 3u, ~0u, 0u);
    require_empty_directory();
    become_confined();
    give_up_privileges();
    limits_start();
    memory_start();
    signals_start();
    for (unsigned long number = first; number < first + count; number++) sequence(seed, number, calls, only);
    return 0;
}
