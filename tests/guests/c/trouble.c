/* What a program is told when something happens to its files on the host: `trouble WHAT PATH`. It comes to a point, says
   `waiting`, and goes on when its input ends; then it says what calls answer. What is done is the same on Linux. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 64
#define MIB (1L << 20)

static char bytes[PAGES * PAGE];

static long said(const char *call, long result) {
    if (result < 0) printf("%s = %s\n", call, strerrorname_np(errno)); else printf("%s = %ld\n", call, result);
    fflush(stdout);
    return result;
}
#define C(call) said(#call, (long)(call))
#define O(call) do { int opened = call; said(#call, opened < 0 ? opened : 0); if (opened >= 0) close(opened); } while (0)

static void wait_for_the_host(void) {
    char one;
    puts("waiting");
    fflush(stdout);
    while (read(0, &one, 1) > 0) {}
}

/* A file system that nothing may be written to. */
static void read_only(void) {
    struct stat status;
    C(access("f", W_OK));
    C(access("f", R_OK));
    O(open("f", O_RDONLY));
    O(open("f", O_RDWR));
    O(open("f", O_WRONLY | O_APPEND));
    O(open("f", O_RDONLY | O_TRUNC));
    O(open("f", O_RDONLY | O_CREAT, 0644));
    O(open("f", O_RDONLY | O_CREAT | O_EXCL, 0644));
    O(open("new", O_RDONLY | O_CREAT, 0644));
    O(open("new", O_RDWR));
    O(open(".", O_TMPFILE | O_RDWR, 0600));
    C(truncate("f", 1));
    C(truncate("missing", 1));
    C(mkdir("d", 0755));
    C(mkdir("new", 0755));
    C(rmdir("d"));
    C(rmdir("missing"));
    C(unlink("f"));
    C(unlink("missing"));
    C(rename("f", "g"));
    C(rename("missing", "g"));
    C(link("f", "g"));
    C(symlink("f", "g"));
    C(symlink("f", "f"));
    C(chmod("f", 0600));
    C(utimensat(AT_FDCWD, "f", 0, 0));
    C(stat("f", &status));
    C(status.st_size);
    int f = open("f", O_RDONLY);
    C(pread(f, bytes, 100, 0));
    C(ftruncate(f, 1));
    C(fchmod(f, 0600));
    C(fsync(f));
    C(close(f));
}

/* The root that all of it is in is taken away, with all there is in it. */
static void removed(void) {
    struct stat status;
    int f = open("f", O_RDWR | O_CREAT, 0644), r = open("read", O_RDONLY);
    C(write(f, "unwritten", 9));
    C(pread(r, bytes, 4, 0));
    wait_for_the_host();
    C(pread(f, bytes, 100, 0));
    C(write(f, " and more", 9));
    C(pread(f, bytes, 100, 0));
    C(memcmp(bytes, "unwritten and more", 18));
    C(pread(r, bytes, 100, 0));
    C(fstat(f, &status));
    C(status.st_size);
    C(status.st_nlink);
    C(ftruncate(f, 5));
    C(lseek(f, 0, SEEK_END));
    C(fsync(f));
    O(open("f", O_RDONLY));
    O(open("new", O_RDWR | O_CREAT, 0644));
    C(mkdir("new", 0755));
    C(unlink("f"));
    C(rename("f", "g"));
    C(symlink("f", "g"));
    C(access("read", R_OK));
    C(close(f));
    C(close(r));
}

static sigjmp_buf behind;

static void on_bus(int number, siginfo_t *what, void *context) {
    (void)number, (void)context;
    siglongjmp(behind, what->si_code == BUS_ADRERR ? 1 : 2);
}

/* A file of 64 pages is made as short as 1000 bytes while parts of it are known here. */
static void cut_short(void) {
    struct stat status;
    int f = open("f", O_RDONLY), n;
    volatile char *memory = mmap(0, PAGES * PAGE, PROT_READ, MAP_SHARED, f, 0);
    sigaction(SIGBUS, &(struct sigaction){.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_NODEFER}, 0);
    C(pread(f, bytes, sizeof bytes, 0));
    C(memory[0] == 'x');
    wait_for_the_host();
    n = open("f", O_RDONLY);
    C(fstat(n, &status));
    C(status.st_size);
    C(pread(n, bytes, 100, 10 * PAGE));
    C(pread(n, bytes, 2000, 0));
    C(pread(f, bytes, 100, 10 * PAGE));
    C(pread(f, bytes, 2000, 0));
    C(lseek(f, 0, SEEK_END));
    C(memory[999] == 'x');
    int how = sigsetjmp(behind, 1);
    if (how == 0) printf("behind the end: %d\n", memory[40 * PAGE]);
    else printf("behind the end: SIGBUS, %s\n", how == 1 ? "no such address" : "something else");
    C(close(n));
    C(close(f));
}

static unsigned char byte_of(long at) { return (unsigned char)((unsigned long)at * 0x9e3779b97f4a7c15u >> 56); }

static long available(void) {
    char text[2048] = {0};
    int file = open("/proc/meminfo", O_RDONLY);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0) exit(90);
    close(file);
    const char *row = strstr(text, "MemAvailable:");
    return row ? strtol(row + 13, 0, 10) << 10 : (exit(91), 0);
}

static void look(int f, long length) {
    for (long at = 0; at + PAGE <= length; at += 37 * PAGE) {
        if (pread(f, bytes, PAGE, at) != PAGE) exit(92);
        for (long i = 0; i < PAGE; i++) if ((unsigned char)bytes[i] != byte_of(at + i)) exit(93);
    }
}

/* More of files than there is memory, written and read; then nearly all memory is the program's. */
static void short_of_memory(long mib, int writes) {
    int f = open("large", O_RDWR | O_CREAT, 0644);
    long before = available(), length = mib * MIB;
    for (long at = 0; writes && at < length; at += (long)sizeof bytes) {
        for (unsigned i = 0; i < sizeof bytes; i++) bytes[i] = (char)byte_of(at + i);
        if (pwrite(f, bytes, sizeof bytes, at) != sizeof bytes) exit(94);
    }
    for (long at = 0, count; (count = pread(f, bytes, sizeof bytes, at)) > 0; at += count) {}
    long with_pages = available();
    printf("what is known of files counts as memory that can be had: %s\n", with_pages > before - 2 * MIB ? "yes" : "no");
    look(f, length);
    long taken = (with_pages - MIB) & ~(PAGE - 1L);
    char *memory = mmap(0, (size_t)taken, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(95);
    for (long at = 0; at < taken; at += PAGE) memory[at] = (char)(at >> 12);
    look(f, length);
    C(pwrite(f, "last", 4, length));
    for (long at = 0; at < taken; at += PAGE) if (memory[at] != (char)(at >> 12)) exit(96);
    C(pread(f, bytes, 10, length));
    C(fsync(f));
    C(close(f));
}

int main(int argc, char **argv) {
    if (argc < 3 || chdir(argv[2])) return 2;
    if (strcmp(argv[1], "read-only") == 0) read_only();
    if (strcmp(argv[1], "removed") == 0) removed();
    if (strcmp(argv[1], "cut") == 0) cut_short();
    if (strcmp(argv[1], "memory") == 0) short_of_memory(atol(argv[3]), argc > 4);
    return 0;
}
