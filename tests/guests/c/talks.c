/* Writes what coppice_tests::talk::said expects of its rank, to both streams in pieces of many lengths, and ends:
   talks BYTES STATUS [FILE]. With a FILE it waits in the middle until that is there. A STATUS above 128 is that of a
   signal, which it sends itself. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const unsigned lengths[] = {1, 60000, 7, 4096, 333};

/* One of the two streams. */
struct said {
    int file;
    unsigned long seed, at, piece;
};

static unsigned long word(unsigned long seed, unsigned long index) {
    unsigned long word = seed + 0x9e3779b97f4a7c15UL * (index + 1);
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9UL;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebUL;
    return word ^ (word >> 31);
}

static void say(struct said *said, unsigned long until) {
    static unsigned char piece[60016];
    unsigned long length = lengths[said->piece++ % (sizeof lengths / sizeof *lengths)];
    if (length > until - said->at) length = until - said->at;
    unsigned long first = said->at / 8, skip = said->at % 8;
    for (unsigned long i = 0; i * 8 < skip + length; i++) {
        unsigned long bytes = word(said->seed, first + i);
        memcpy(piece + i * 8, &bytes, 8);
    }
    for (unsigned long done = 0; done < length;) {
        ssize_t count = write(said->file, piece + skip + done, length - done);
        if (count <= 0) _exit(97);
        done += count;
    }
    said->at += length;
}

static void say_both(struct said *out, struct said *error, unsigned long until) {
    while (out->at < until || error->at < until / 4) {
        if (out->at < until) say(out, until);
        if (error->at < until / 4) say(error, until / 4);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 98;
    const char *rank = getenv("COPPICE_RANK");
    unsigned long seed = strtoul(rank ? rank : "0", NULL, 10) * 2, bytes = strtoul(argv[1], NULL, 10);
    struct said out = {1, seed, 0, 0}, error = {2, seed + 1, 0, 2};
    say_both(&out, &error, argc > 3 ? bytes / 2 : bytes);
    struct timespec time = {.tv_nsec = 20000000};
    struct stat status;
    while (argc > 3 && stat(argv[3], &status) != 0) nanosleep(&time, NULL);
    say_both(&out, &error, bytes);
    int ends = atoi(argv[2]);
    if (ends > 128) raise(ends - 128);
    return ends;
}
