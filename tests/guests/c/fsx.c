/* What a program may do to files with one of the many calls there are, at random and against a model that is kept in
   memory: `fsx SEED STEPS`. Every byte that is read, every length and every offset is looked at; the last calls are
   told if one is wrong. What is done follows from the seed alone, so wherever it runs the same is said at the end:
   how often each kind of call was made, and what each name leads to. It works in the current directory; each of
   several ranks has one of its own there, and a seed of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fsx/model.h"
#include "fsx/bytes.h"
#include "fsx/mapped.h"
#include "fsx/lengths.h"
#include "fsx/copies.h"
#include "fsx/whole.h"

static const struct {
    const char *name;
    void (*make)(void);
    int weight;
} kinds[] = {
    {"open", open_one, 14},       {"close", close_one, 6},         {"dup", dup_one, 2},        {"read", read_some, 24},
    {"write", write_some, 24},    {"direct", direct, 4},           {"map", map_to_read, 10},   {"map private", map_private, 4},
    {"map write", map_to_write, 6}, {"keep map", keep_map, 3},     {"ftruncate", cut_open, 6}, {"truncate", cut_named, 4},
    {"allocate", allocate, 4},    {"punch", punch, 4},             {"zero", zero_range, 3},    {"copy", copy_range, 6},
    {"send", send_file, 5},       {"seek", seek_to, 5},            {"data", seek_data, 4},     {"sync", sync_one, 3},
    {"status", look_at, 8},       {"rename", rename_one, 3},       {"unlink", unlink_one, 2},  {"link", link_one, 2},
    {"whole", whole, 3},
};
#define KINDS (sizeof kinds / sizeof *kinds)

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    uint64_t seed = strtoull(argv[1], 0, 10);
    if (getenv("COPPICE_SIZE") && atoi(getenv("COPPICE_SIZE")) > 1) {
        char own[32];
        snprintf(own, sizeof own, "fsx-%s", getenv("COPPICE_RANK"));
        if (mkdir(own, 0755) || chdir(own)) return 3;
        seed += (uint64_t)atoi(getenv("COPPICE_RANK"));
    }
    state = seed * 0x9e3779b97f4a7c15u + 1;
    long steps = atol(argv[2]), made[KINDS] = {0}, weights = 0;
    if (posix_memalign((void **)&buffer, 4096, BUFFER_BYTES)) return 2;
    for (unsigned i = 0; i < KINDS; i++) weights += kinds[i].weight;
    for (step = 1; step <= steps; step++) {
        long drawn = draw(weights);
        unsigned kind = 0;
        while (drawn >= kinds[kind].weight) drawn -= kinds[kind++].weight;
        made[kind]++;
        kinds[kind].make();
        if (draw(4) == 0) look_at_kept();
    }
    for (unsigned i = 0; i < KINDS; i++) printf("%s%s %ld", i ? ", " : "", kinds[i].name, made[i]);
    puts("");
    for (int slot = 0; slot < SLOTS; slot++)
        if (table[slot]) is("close", 0, close(fds[slot]));
    for (int name = 0; name < NAMES; name++) {
        uint64_t sum = 0xcbf29ce484222325u;
        if (!names[name]) continue;
        for (long i = 0; i < names[name]->length; i++) sum = (sum ^ names[name]->bytes[i]) * 0x100000001b3u;
        printf("%s %ld %lx\n", path_of[name], names[name]->length, (unsigned long)sum);
    }
    return 0;
}
