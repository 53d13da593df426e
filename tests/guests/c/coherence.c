/* Ranks on several nodes do things to files in turn, and each looks whether it sees what all before it did: `coherence
   SEED STEPS`. What is done follows from the seed, so every rank knows what is in the files without being told: whose
   turn it is gets a byte from whoever had it before. At the end rank 0 says of each name what it leads to. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define RANKS_MAX 8
#define NAMES 3
#define FDS 3
#define LENGTH_MAX 400000
/* Directories, and symbolic links. */
#define OTHERS 2
/* Times that everything is looked at, so that a node that looks knows it all. */
#define ROUNDS 2

static int rank, size, per_node;
static long step;
static const char *seed;
static int peers[RANKS_MAX];

/* A file, whatever it is called; a descriptor of a rank's, as all know it. */
struct file {
    unsigned char *bytes;
    long length;
    int mode;
    /* When it was changed, if that was said and nobody wrote to it since; else -1. */
    long modified;
};
static struct file *names[NAMES];
static struct {
    struct file *file;
    int flags;
} table[RANKS_MAX][FDS];
static int fds[FDS];

static int directories[OTHERS];
/* The name that a link leads to, or -1. */
static int links[OTHERS] = {-1, -1};

static void fail(const char *what, long expected, long got) {
    printf("rank %d step %ld: %s: expected %ld, got %ld (errno %d)\n", rank, step, what, expected, got, errno);
    fflush(stdout);
    _exit(1);
}

static void is(const char *what, long expected, long got) {
    if (expected != got) fail(what, expected, got);
}

static uint64_t state;
static long draw(long below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (long)(state % (uint64_t)below);
}

static const char *path(const char *kind, int name) {
    static char path[4][64];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s-%s-%d", kind, seed, name);
    return path[turn];
}

static const char *path_of(int name) { return path("shared", name); }
static const char *directory_of(int name) { return path("directory", name); }
static const char *link_of(int name) { return path("link", name); }

static unsigned char byte_of(long at) {
    return (unsigned char)(((unsigned long)step * 2654435761u + (unsigned long)at * 40503u) >> 8);
}

/* The bytes are there, with zeros where nothing was. */
static void grow(struct file *file, long length) {
    if (length > file->length) memset(file->bytes + file->length, 0, (size_t)(length - file->length));
    if (length > file->length) file->length = length;
}

static struct file *made(void) {
    struct file *file = malloc(sizeof *file);
    file->bytes = malloc(LENGTH_MAX + 200000);
    file->length = 0;
    file->mode = 0644;
    file->modified = -1;
    return file;
}

static unsigned char buffer[LENGTH_MAX + 200000];

static void compare(const char *what, const struct file *file, long at, long count) {
    if (memcmp(buffer, file->bytes + at, (size_t)count) == 0) return;
    long i = 0;
    while (buffer[i] == file->bytes[at + i]) i++;
    printf("%s: at %ld of %ld, byte %ld of %ld\n", what, at + i, file->length, i, count);
    fail(what, file->bytes[at + i], buffer[i]);
}

static long length_drawn(void) {
    switch (draw(6)) {
    case 0: return 1 + draw(20);
    case 1: return 4096 * (1 + draw(4));
    case 2: return 1 + draw(100000);
    default: return 1 + draw(9000);
    }
}

/* What a look at a file says: nothing if there is none. */
static void told(const char *what, const struct file *file, int result, const struct stat *status) {
    is(what, file ? 0 : -1, result);
    if (!file) return is("that it is missing", ENOENT, errno);
    is("the length", file->length, status->st_size);
    is("the mode", file->mode, status->st_mode & 07777);
    if (file->modified >= 0) is("the time", file->modified, status->st_mtime);
}

/* What all names lead to. */
static void survey(void) {
    struct stat status;
    char text[64];
    for (int name = 0; name < NAMES; name++) {
        told("stat", names[name], stat(path_of(name), &status), &status);
        told("lstat", names[name], lstat(path_of(name), &status), &status);
        is("access", names[name] ? 0 : -1, access(path_of(name), F_OK));
        is("access to read", names[name] ? 0 : -1, access(path_of(name), R_OK));
        if (!names[name]) is("open", -1, open(path_of(name), O_RDONLY));
    }
    for (int name = 0; name < OTHERS; name++) {
        is("stat of a directory", directories[name] ? 0 : -1, stat(directory_of(name), &status));
        if (directories[name]) is("that it is one", 1, S_ISDIR(status.st_mode));
        snprintf(text, sizeof text, "%s/x", directory_of(name));
        is("what is in it", -1, access(text, F_OK));
        is("lstat of a link", links[name] < 0 ? -1 : 0, lstat(link_of(name), &status));
        long length = readlink(link_of(name), text, sizeof text);
        const char *leads_to = links[name] < 0 ? "" : path_of(links[name]);
        is("readlink", links[name] < 0 ? -1 : (long)strlen(leads_to), length);
        if (length > 0) is("what it says", 0, memcmp(text, leads_to, (size_t)length));
        told("stat of a link", links[name] < 0 ? 0 : names[links[name]], stat(link_of(name), &status), &status);
    }
}

/* What is listed is what there is, and each entry is what it is. */
static void list(void) {
    DIR *directory = opendir(".");
    int files = 0, expected = 0;
    if (!directory) fail("opendir", 0, -1);
    for (struct dirent *entry; (entry = readdir(directory));) {
        int number, end = 0;
        char format[64];
        struct stat status;
        snprintf(format, sizeof format, "shared-%s-%%d%%n", seed);
        if (sscanf(entry->d_name, format, &number, &end) != 1 || entry->d_name[end]) continue;
        told("lstat of an entry", names[number], lstat(entry->d_name, &status), &status);
        files++;
    }
    closedir(directory);
    for (int name = 0; name < NAMES; name++) expected += names[name] != 0;
    is("files that are listed", expected, files);
}

/* Nobody has it open to write, so nothing that was written comes later. */
static int is_written(const struct file *file) {
    for (int who = 0; who < size; who++)
        for (int slot = 0; slot < FDS; slot++)
            if (table[who][slot].file == file && (table[who][slot].flags & O_ACCMODE) != O_RDONLY) return 1;
    return 0;
}

/* One step that is about names and attributes alone. */
static void act_on_names(int mine) {
    int name = (int)draw(NAMES), other = (int)draw(OTHERS), what = (int)draw(12);
    long when = draw(1000000000);
    static const int modes[] = {0644, 0600, 0664, 0755};
    int mode = modes[draw(4)];
    struct file *file = names[name];
    switch (what) {
    case 0: case 1: case 2: case 3:
        if (mine) for (int round = 0; round < ROUNDS; round++) survey();
        return;
    case 4:
        if (mine) list(), survey();
        return;
    case 5:
        if (mine) is("chmod", file ? 0 : -1, chmod(path_of(name), (mode_t)mode));
        if (file) file->mode = mode;
        return;
    case 6: {
        struct timespec times[2] = {{when, 0}, {when, 0}};
        if (mine) is("utimensat", file ? 0 : -1, utimensat(AT_FDCWD, path_of(name), times, 0));
        if (file) file->modified = is_written(file) ? -1 : when;
        return;
    }
    case 7:
        if (mine) is("mkdir", directories[other] ? -1 : 0, mkdir(directory_of(other), 0755));
        directories[other] = 1;
        return;
    case 8:
        if (mine) is("rmdir", directories[other] ? 0 : -1, rmdir(directory_of(other)));
        directories[other] = 0;
        return;
    case 9:
        if (mine) is("symlink", links[other] < 0 ? 0 : -1, symlink(path_of(name), link_of(other)));
        if (links[other] < 0) links[other] = name;
        return;
    case 10:
        if (mine) is("unlink of a link", links[other] < 0 ? -1 : 0, unlink(link_of(other)));
        links[other] = -1;
        return;
    default:
        if (directories[0] == directories[1]) return;
        other = directories[0] ? 0 : 1;
        if (mine) is("rename of a directory", 0, rename(directory_of(other), directory_of(1 - other)));
        directories[other] = 0, directories[1 - other] = 1;
    }
}

/* One step of whoever's turn it is; `mine`: of this rank. */
static void act(int who, int mine) {
    if (draw(4) == 0) return act_on_names(mine);
    int slot = (int)draw(FDS), name = (int)draw(NAMES), what = (int)draw(14);
    struct file *file = table[who][slot].file;
    int flags = table[who][slot].flags, writes = (flags & O_ACCMODE) != O_RDONLY, reads = (flags & O_ACCMODE) != O_WRONLY;
    long at = draw(8) ? draw((file ? file->length : 0) + 5000) : draw(LENGTH_MAX - 100000), count = length_drawn();
    int other = (int)draw(NAMES), opened = (int)draw(8);
    if (at > LENGTH_MAX - 100000) at = LENGTH_MAX - 100000;
    if (!file) what = what < 11 ? 20 : what;
    switch (what) {
    case 0: case 1: case 2: /* write */
        if (!writes) return;
        if (flags & O_APPEND && file->length + count > LENGTH_MAX) return;
        for (long i = 0; i < count; i++) buffer[i] = byte_of(i);
        if (mine) is("pwrite", count, pwrite(fds[slot], buffer, (size_t)count, at));
        if (flags & O_APPEND) at = file->length;
        grow(file, at + count);
        file->modified = -1;
        for (long i = 0; i < count; i++) file->bytes[at + i] = byte_of(i);
        return;
    case 3: case 4: case 5: { /* read */
        if (!reads) return;
        long there = at < file->length ? file->length - at : 0;
        if (count < there) there = count;
        if (mine) is("pread", there, pread(fds[slot], buffer, (size_t)count, at)), compare("pread", file, at, there);
        return;
    }
    case 6: { /* the length */
        struct stat status;
        if (mine) told("fstat", file, fstat(fds[slot], &status), &status);
        if (mine) is("lseek", file->length, lseek(fds[slot], 0, SEEK_END));
        return;
    }
    case 7: /* cut, or let it grow */
        if (!writes) return;
        if (mine) is("ftruncate", 0, ftruncate(fds[slot], at));
        grow(file, at);
        file->length = at, file->modified = -1;
        return;
    case 8: /* as memory */
        if (!reads || !file->length) return;
        at = at % file->length / 4096 * 4096;
        if (count > file->length - at) count = file->length - at;
        if (mine) {
            int shared = opened & 1, rights = writes ? PROT_READ | PROT_WRITE : PROT_READ;
            char *memory = mmap(0, (size_t)count, rights, shared ? MAP_SHARED : MAP_PRIVATE, fds[slot], at);
            if (memory == MAP_FAILED) fail("mmap", 0, 1);
            memcpy(buffer, memory, (size_t)count);
            compare("mmap", file, at, count);
            /* What is written to a mapping is seen by calls here, and by others when that is asked for. */
            if (shared && writes) {
                for (long i = 0; i < count; i += 1 + count / 50) memory[i] = (char)byte_of(i);
                is("pread of a mapping", 1, pread(fds[slot], buffer, 1, at));
                is("what it gives", byte_of(0), buffer[0]);
                is("msync", 0, msync(memory, (size_t)count, MS_SYNC));
            }
            munmap(memory, (size_t)count);
        }
        if (opened & 1 && writes)
            for (long i = 0; i < count; i += 1 + count / 50) file->bytes[at + i] = byte_of(i);
        return;
    case 9: /* to the disk */
        if (mine) is("fsync", 0, fsync(fds[slot]));
        return;
    case 10: /* close */
        if (mine) is("close", 0, close(fds[slot]));
        table[who][slot].file = 0;
        return;
    case 11: { /* by name: its length, or that it is not there */
        struct stat status;
        if (!mine) return;
        is("stat", names[name] ? 0 : -1, stat(path_of(name), &status));
        if (names[name]) is("stat's length", names[name]->length, status.st_size);
        return;
    }
    case 12: /* by name: cut it, or take it away */
        if (!names[name]) return;
        if (opened) {
            if (mine) is("truncate", 0, truncate(path_of(name), at));
            grow(names[name], at);
            names[name]->length = at, names[name]->modified = -1;
        } else {
            if (mine) is("unlink", 0, unlink(path_of(name)));
            names[name] = 0;
        }
        return;
    case 13: /* another name */
        if (!names[name] || name == other) return;
        if (mine) is("rename", 0, rename(path_of(name), path_of(other)));
        names[other] = names[name];
        names[name] = 0;
        return;
    default: { /* open */
        static const int ways[] = {O_RDONLY, O_RDWR, O_RDWR, O_WRONLY, O_RDWR | O_APPEND, O_WRONLY | O_APPEND, O_RDWR | O_TRUNC, O_RDONLY};
        flags = ways[opened];
        int creates = (flags & O_ACCMODE) != O_RDONLY;
        if (!names[name] && !creates) return;
        if (mine) fds[slot] = open(path_of(name), flags | (creates ? O_CREAT : 0), 0644);
        if (mine && fds[slot] < 0) fail("open", 0, fds[slot]);
        if (!names[name]) names[name] = made();
        if (flags & O_TRUNC) names[name]->length = 0, names[name]->modified = -1;
        table[who][slot].file = names[name];
        table[who][slot].flags = flags;
    }
    }
}

static struct sockaddr_in place(int of) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(6000 + of % per_node))};
    place.sin_addr.s_addr = htonl(0x0a800001u + (unsigned)(of / per_node));
    return place;
}

static void meet(void) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in here = place(rank);
    here.sin_addr.s_addr = INADDR_ANY;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    is("bind", 0, bind(listener, (void *)&here, sizeof here));
    is("listen", 0, listen(listener, RANKS_MAX));
    for (int of = 0; of < rank; of++) {
        struct sockaddr_in there = place(of);
        while (connect(peers[of] = socket(AF_INET, SOCK_STREAM, 0), (void *)&there, sizeof there) < 0) {
            close(peers[of]);
            usleep(20000);
        }
        unsigned char me = (unsigned char)rank;
        is("hello", 1, write(peers[of], &me, 1));
    }
    for (int of = rank + 1; of < size; of++) {
        int s = accept(listener, 0, 0);
        unsigned char who;
        is("hello", 1, read(s, &who, 1));
        peers[who] = s;
    }
    for (int of = 0; of < size; of++)
        if (of != rank) setsockopt(peers[of], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    seed = argv[1];
    state = strtoull(argv[1], 0, 10) * 0x9e3779b97f4a7c15u + 1;
    long steps = atol(argv[2]);
    per_node = atoi(argv[3]);
    rank = atoi(getenv("COPPICE_RANK"));
    size = atoi(getenv("COPPICE_SIZE"));
    meet();
    int before = -1;
    unsigned char turn = 0;
    for (step = 0; step < steps; step++) {
        int who = (int)draw(size);
        if (who == rank && before >= 0 && before != rank) is("turn", 1, read(peers[before], &turn, 1));
        int mine = who == rank;
        if (before == rank && who != rank) is("turn", 1, write(peers[who], &turn, 1));
        act(who, mine);
        before = who;
    }
    /* Whoever was last tells rank 0. */
    if (before == rank && rank != 0) is("turn", 1, write(peers[0], &turn, 1));
    if (rank != 0) return 0;
    if (before > 0) is("turn", 1, read(peers[before], &turn, 1));
    for (int name = 0; name < OTHERS; name++) {
        if (directories[name]) is("the last rmdir", 0, rmdir(directory_of(name)));
        if (links[name] >= 0) is("the last unlink", 0, unlink(link_of(name)));
    }
    for (int name = 0; name < NAMES; name++) {
        uint64_t sum = 0xcbf29ce484222325u;
        if (!names[name]) continue;
        for (long i = 0; i < names[name]->length; i++) sum = (sum ^ names[name]->bytes[i]) * 0x100000001b3u;
        printf("%s %ld %lx\n", path_of(name), names[name]->length, (unsigned long)sum);
    }
    return 0;
}
