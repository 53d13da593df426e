/* Memory calls, each answer printed without addresses: the host and a node must print the same. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *name(void *p) { return p == MAP_FAILED ? strerrorname_np(errno) : "mapped"; }
#define PAGE 4096UL
static volatile int relro_like = 5;

int main(void) {
    int rw = PROT_READ | PROT_WRITE, anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    /* Reservations far beyond any node's memory cost nothing until they are touched. */
    char *huge = mmap(NULL, 1UL << 40, PROT_NONE, anonymous | MAP_NORESERVE, -1, 0);
    printf("reserve 1 TiB: %s\n", name(huge));
    printf("use a piece of it: %d\n", mprotect(huge + (1UL << 39), 8 * PAGE, rw));
    huge[(1UL << 39) + 5] = 9;
    printf("and read it: %d\n", huge[(1UL << 39) + 5]);
    printf("release: %d\n", munmap(huge, 1UL << 40));

    char *p = mmap(NULL, 16 * PAGE, rw, anonymous, -1, 0);
    memset(p, 1, 16 * PAGE);
    printf("hole: %d\n", munmap(p + 4 * PAGE, 2 * PAGE));
    printf("around it: %d %d\n", p[4 * PAGE - 1], p[6 * PAGE]);
    printf("fixed into the hole: %d\n", mmap(p + 4 * PAGE, PAGE, rw, anonymous | MAP_FIXED, -1, 0) == p + 4 * PAGE);
    printf("zero there: %d\n", p[4 * PAGE]);
    printf("no replace: %s\n", name(mmap(p, PAGE, rw, anonymous | MAP_FIXED_NOREPLACE, -1, 0)));
    printf("read only: %d\n", mprotect(p, PAGE, PROT_READ));
    int refused = mprotect(p + 5 * PAGE, 2 * PAGE, PROT_READ);
    printf("gap in mprotect: %d %s\n", refused, strerrorname_np(errno));
    printf("dontneed: %d\n", madvise(p + 8 * PAGE, PAGE, MADV_DONTNEED));
    printf("zero again: %d, neighbour kept %d\n", p[8 * PAGE], p[9 * PAGE]);
    refused = munmap(p + 1, PAGE);
    printf("misaligned: %d %s\n", refused, strerrorname_np(errno));
    printf("nothing: %s\n", name(mmap(NULL, 0, rw, anonymous, -1, 0)));
    printf("too much: %s\n", name(mmap(NULL, ~0UL << 12, rw, anonymous, -1, 0)));
    printf("kernel space: %s\n", name(mmap((void *)0xffff800000000000, PAGE, rw, anonymous | MAP_FIXED, -1, 0)));

    char *m = mmap(NULL, 4 * PAGE, rw, anonymous, -1, 0);
    for (int i = 0; i < 4; i++) m[i * PAGE] = (char)(10 + i);
    char *grown = mremap(m, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
    printf("grown: %s %d %d %d\n", name(grown), grown[0], grown[3 * PAGE], grown[63 * PAGE]);
    char *shrunk = mremap(grown, 64 * PAGE, 2 * PAGE, 0);
    printf("shrunk: %d %d\n", shrunk == grown, shrunk[PAGE]);
    printf("not mapped: %s\n", name(mremap((void *)0x10000, PAGE, 2 * PAGE, MREMAP_MAYMOVE)));

    void *start = sbrk(0);
    printf("brk grows: %d\n", sbrk(100 * PAGE) == start);
    memset(start, 3, 100 * PAGE);
    printf("brk shrinks: %d\n", sbrk(-100L * (long)PAGE) == (char *)start + 100 * PAGE);
    printf("brk zero: %d\n", sbrk(PAGE) == start ? ((char *)start)[10] : -1);

    int fd = open("mapped-file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    char line[6000];
    memset(line, 'x', sizeof line);
    memcpy(line, "start", 5);
    memcpy(line + sizeof line - 3, "end", 3);
    printf("written: %zd\n", write(fd, line, sizeof line));
    char *file = mmap(NULL, 2 * PAGE, rw, MAP_PRIVATE, fd, 0);
    close(fd);
    unlink("mapped-file");
    printf("file: %.5s %.3s, zero behind its end %d\n", file, file + sizeof line - 3, file[sizeof line]);
    file[0] = 'S';
    printf("private: %c\n", file[0]);
    printf("not open: %s\n", name(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, 99, 0)));

    /* Memory that is executed, then written, then executed again. */
    unsigned char *code = mmap(NULL, PAGE, rw, anonymous, -1, 0);
    memcpy(code, (unsigned char[]){0xb8, 7, 0, 0, 0, 0xc3}, 6);
    mprotect(code, PAGE, PROT_READ | PROT_EXEC);
    int first = ((int (*)(void))code)();
    mprotect(code, PAGE, rw);
    code[1] = 8;
    mprotect(code, PAGE, PROT_READ | PROT_EXEC);
    printf("executed: %d then %d\n", first, ((int (*)(void))code)());
    relro_like += 1;
    printf("data: %d\n", relro_like);

    /* A deep stack grows by itself. */
    volatile char deep[4 << 20];
    for (size_t i = 0; i < sizeof deep; i += PAGE) deep[i] = 1;
    printf("stack: %d\n", deep[0] + deep[sizeof deep - PAGE]);
    return 0;
}
