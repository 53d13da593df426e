/* Makes kernel objects of many kinds, as many and in the order that a plan says, and ends as it says.

   A plan is words of the form KIND=COUNT or KIND=COUNT:WAY and an end=WAY ("pipes=64:full eat=100 threads=505:readv
   end=exit"); "/" stands between one rank's plan and the next one's, and rank r has plan r modulo their number.
   "seed=N" makes a plan for each rank instead. "say" first: prints the plans of so many ranks and ends ("say 4
   seed=7"). "hang" first: waits for its end when all is made, whatever the plan says.

   Whatever the kernel refuses is passed over: what is tried here is whether the node is none the worse for it. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "objects/descriptors.h"
#include "objects/ends.h"
#include "objects/memory.h"
#include "objects/sockets.h"
#include "objects/waits.h"

/* Most words of a plan, and most characters of a word. */
#define WORDS_MAX 16
#define WORD_MAX 40

static const struct kind {
    const char *name;
    /* The largest number of them that random plans have, and how often they have any. */
    int most, weight;
    void (*make)(int count, const char *way);
    const char *ways[12];
} kinds[] = {
    {"eat", 100, 5, eat, {""}},
    {"areas", 8192, 2, make_areas, {""}},
    {"splits", 4096, 2, make_splits, {""}},
    {"shared", 256, 2, make_shared, {"keep", "unlink"}},
    {"threads", 508, 8, make_threads,
     {"pause", "futex", "readv", "poll", "sigwait", "sleep", "epoll", "open", "recvmsg", "accept", "stdin", "maps"}},
    {"pipes", 480, 3, make_pipes, {"full", "empty", "tiny"}},
    {"pairs", 480, 3, make_pairs, {"stream", "datagram", "packet"}},
    {"events", 1000, 2, make_events, {""}},
    {"epolls", 100, 2, make_epolls, {""}},
    {"files", 400, 1, make_files, {"write", "map", "directory"}},
    {"others", 200, 2, make_others, {"timer", "signal", "memory", "notify"}},
    {"tcp", 400, 3, make_tcp, {"full", "empty", "listen"}},
    {"udp", 400, 2, make_udp, {"full", "empty"}},
    {"local", 400, 2, make_local, {"stream", "datagram"}},
    {"timers", 64, 2, make_timers, {"once", "often", "processor"}},
    {"signals", 1024, 2, make_signals, {"process", "thread"}},
    {"close", 100, 2, close_some, {""}},
    {"hold", 40, 2, hold, {""}},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static const char *const ends[] = {"exit", "exit", "exit", "thread", "abort", "fault", "kill", "peer"};

static char plan[WORDS_MAX][WORD_MAX];
static int words;

static uint64_t state;

static unsigned below(unsigned end) {
    state += 0x9e3779b97f4a7c15;
    uint64_t mixed = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return (unsigned)((mixed ^ (mixed >> 31)) >> 33) % end;
}

static const struct kind *any_kind(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < KINDS; i++) sum += (unsigned)kinds[i].weight;
    unsigned left = below(sum), i = 0;
    while (left >= (unsigned)kinds[i].weight) left -= (unsigned)kinds[i++].weight;
    return &kinds[i];
}

/* The plan that a rank makes of a seed. */
static void plan_of(uint64_t seed, unsigned rank) {
    state = seed * 0xd1342543de82ef95 + rank * 0x2545f4914f6cdd1d;
    int things = 1 + (int)below(8);
    for (words = 0; words < things; words++) {
        const struct kind *kind = any_kind();
        unsigned ways = 0, most = (unsigned)kind->most;
        while (ways < 12 && kind->ways[ways]) ways++;
        /* As many as there may be, or any smaller order of magnitude. */
        unsigned count = below(3) == 0 ? most : 1 + below((most >> below(8)) + 1);
        const char *way = kind->ways[below(ways)];
        snprintf(plan[words], WORD_MAX, "%s=%u%s%s", kind->name, count, *way ? ":" : "", way);
    }
    snprintf(plan[words++], WORD_MAX, "end=%s", ends[below(sizeof ends / sizeof *ends)]);
}

/* The plan of a rank among those that the arguments spell out. */
static void plan_among(char **arguments, unsigned rank) {
    unsigned plans = 1, at = 0;
    for (char **word = arguments; *word; word++) plans += strcmp(*word, "/") == 0;
    for (words = 0; *arguments && words < WORDS_MAX; arguments++) {
        if (strcmp(*arguments, "/") == 0) at++;
        else if (at == rank % plans) snprintf(plan[words++], WORD_MAX, "%s", *arguments);
    }
}

static void decide(char **arguments, unsigned rank) {
    if (*arguments && strncmp(*arguments, "seed=", 5) == 0) plan_of(strtoull(*arguments + 5, NULL, 0), rank);
    else plan_among(arguments, rank);
}

/* Makes what a word says. Returns whether there is such a thing. */
static int make(char *word) {
    char *count = strchr(word, '='), *way = strchr(word, ':');
    if (!count) return 0;
    *count++ = 0;
    if (way) *way++ = 0;
    for (unsigned i = 0; i < KINDS; i++) {
        if (strcmp(word, kinds[i].name) != 0) continue;
        kinds[i].make(atoi(count), way ? way : kinds[i].ways[0]);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *told = getenv("COPPICE_RANK"), *end = "exit";
    unsigned rank = told ? (unsigned)atoi(told) : 0;
    char **arguments = argv + 1;
    if (argc > 2 && strcmp(argv[1], "say") == 0) {
        for (rank = 0; rank < (unsigned)atoi(argv[2]); rank++) {
            decide(argv + 3, rank);
            for (int i = 0; i < words; i++) printf("%s%s", i || !rank ? "" : "/ ", plan[i]), putchar(' ');
        }
        putchar('\n');
        return 0;
    }
    int hangs = argc > 1 && strcmp(argv[1], "hang") == 0;
    decide(arguments + hangs, rank);
    prepare();
    for (int i = 0; i < words; i++) {
        if (strncmp(plan[i], "end=", 4) == 0) end = plan[i] + 4;
        else if (!make(plan[i])) {
            fprintf(stderr, "what is %s?\n", plan[i]);
            return 2;
        }
    }
    finish(hangs ? "hang" : end);
    return 2;
}
