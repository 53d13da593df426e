/* Prints a sum of each part of itself, then changes all of them in every way there is. Every run must print the same:
   a node must not keep what a run made of its pages. Arguments: a file of zeros to map; "hungry" to take so much memory
   besides that the node gives up the pristine copies of the pages that were changed. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL
#define ALIGNED __attribute__((aligned(PAGE)))
#define RW (PROT_READ | PROT_WRITE)
#define RX (PROT_READ | PROT_EXEC)

/* Initialised data: one page to be written by the program, one by the kernel, one that is not touched, one that is made
   read-only after it was written, one that is only made read-only. */
static unsigned char written[PAGE] ALIGNED = "written", by_kernel[PAGE] ALIGNED = "by kernel";
static unsigned char untouched[PAGE] ALIGNED = "untouched", sealed[PAGE] ALIGNED = "sealed";
static unsigned char only_sealed[PAGE] ALIGNED = "only sealed";
/* More that is made read-only after it was written: how many pages the node can give up. */
#define MANY 64
static unsigned char many[MANY * PAGE] ALIGNED = "many";
/* In the part that is read-only once relocations are done. */
static void *const relocated[512] ALIGNED = {(void *)written, (void *)sealed};
/* What is there, whatever the compiler knows. */
#define RELOCATED ((void *const volatile *)relocated)

/* Pages of text, each a function that returns its number. (Other code lies behind the last one.) */
#define FUNCTION(number) \
    __attribute__((noipa, section(".text.pages"), aligned(4096))) static int function##number(void) { return number; }
FUNCTION(0) FUNCTION(1) FUNCTION(2) FUNCTION(3) FUNCTION(4) FUNCTION(5) FUNCTION(6) FUNCTION(7) FUNCTION(8) FUNCTION(9)
FUNCTION(10)
typedef int (*function)(void);
static const function functions[] = {function0, function1, function2, function3, function4,
                                     function5, function6, function7, function8, function9, function10};

static void check(int holds, int line) {
    if (holds) return;
    printf("line %d: not as expected\n", line);
    exit(1);
}
#define CHECK(condition) check(condition, __LINE__)

static void *page_of(int number) { return (void *)((unsigned long)functions[number] & -PAGE); }

/* The code of function `from` in place of that of the function in page `to`. */
static void put_code(void *to, int from) {
    memcpy(to, page_of(from), 64);
}

/* Where the file's first page is. */
extern const char __ehdr_start[];

/* All that the program's headers put into memory from the file. */
static void print_sums(void) {
    const Elf64_Phdr *headers = (void *)(__ehdr_start + ((const Elf64_Ehdr *)__ehdr_start)->e_phoff);
    unsigned long count = ((const Elf64_Ehdr *)__ehdr_start)->e_phnum, base = 0;
    for (unsigned long i = 0; i < count; i++)
        if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0)
            base = (unsigned long)__ehdr_start - headers[i].p_vaddr;
    for (unsigned long i = 0; i < count; i++) {
        if (headers[i].p_type != PT_LOAD) continue;
        const unsigned char *start = (void *)(base + headers[i].p_vaddr), *end = start + headers[i].p_filesz;
        /* The C library's own data differs between runs: there, only what is the program's. */
        if (headers[i].p_flags & PF_W) continue;
        unsigned long sum = 0;
        for (const unsigned char *byte = start; byte < end; byte++) sum = sum * 31 + *byte;
        printf("segment %lu: %lx\n", i, sum);
    }
    printf("data: %s, %s, %s, %s, %s\n", written, by_kernel, untouched, sealed, only_sealed);
    unsigned long sum = 0;
    for (unsigned long i = 0; i < sizeof written; i++)
        sum = sum * 31 + written[i] + by_kernel[i] + untouched[i] + sealed[i] + only_sealed[i];
    for (unsigned long i = 0; i < sizeof many; i++) sum = sum * 31 + many[i];
    printf("data: %lx, relocated: %d\n", sum, RELOCATED[0] == written && RELOCATED[1] == sealed && !RELOCATED[511]);
    for (int i = 0; i <= 10; i++) printf("%d", functions[i]());
    printf("\n");
}

/* Takes all memory that can be had and half as many pages more as the node can give up. */
static void take_memory(void) {
    char text[1024] = {0};
    int fd = open("/proc/meminfo", O_RDONLY);
    CHECK(read(fd, text, sizeof text - 1) > 0 && strstr(text, "MemAvailable:"));
    unsigned long pages = strtoul(strstr(text, "MemAvailable:") + 13, NULL, 10) / 4 + MANY / 2;
    /* So many go into the page table: one in 512, and one on each of the two levels above. */
    pages -= pages / 512 + 3;
    volatile char *memory = mmap(NULL, pages * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    for (unsigned long i = 0; i < pages; i++) memory[i * PAGE] = 1;
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    print_sums();
    fflush(stdout);
    /* Data. */
    memset(written, 'x', PAGE);
    memset(many, 'z', sizeof many);
    CHECK(mprotect(many, sizeof many, PROT_READ) == 0);
    int fd = open(argv[1], O_RDWR);
    CHECK(fd >= 0 && read(fd, by_kernel, PAGE) == PAGE && by_kernel[0] == 0);
    memset(sealed, 'y', PAGE);
    CHECK(mprotect(sealed, PAGE, PROT_READ) == 0 && mprotect(only_sealed, PAGE, PROT_READ) == 0);
    /* Read-only after relocation: opened, changed, closed again. */
    CHECK(mprotect((void *)relocated, PAGE, RW) == 0);
    ((void **)relocated)[0] = NULL;
    ((void **)relocated)[511] = sealed;
    CHECK(mprotect((void *)relocated, PAGE, PROT_READ) == 0 && RELOCATED[511] == sealed);
    /* Text that is written and executed again. */
    CHECK(mprotect(page_of(0), PAGE, RW) == 0);
    put_code(page_of(0), 1);
    CHECK(mprotect(page_of(0), PAGE, RX) == 0 && function0() == 1);
    /* The same, by the kernel. */
    CHECK(mprotect(page_of(1), PAGE, RW) == 0 && lseek(fd, 0, SEEK_SET) == 0 && read(fd, page_of(1), PAGE) == PAGE);
    CHECK(mprotect(page_of(1), PAGE, RX) == 0 && *(const volatile char *)page_of(1) == 0);
    /* Made writable and not written. */
    CHECK(mprotect(page_of(2), PAGE, RW) == 0 && mprotect(page_of(2), PAGE, RX) == 0 && function2() == 2);
    /* Replaced by other memory. */
    int fixed = MAP_PRIVATE | MAP_FIXED;
    CHECK(munmap(page_of(3), PAGE) == 0);
    CHECK(mmap(page_of(3), PAGE, RW, fixed | MAP_ANONYMOUS, -1, 0) == page_of(3));
    put_code(page_of(3), 4);
    CHECK(mprotect(page_of(3), PAGE, RX) == 0 && function3() == 4);
    /* Replaced by a file. */
    CHECK(mmap(page_of(4), PAGE, RX, fixed, fd, 0) == page_of(4) && *(const volatile char *)page_of(4) == 0);
    /* Moved: to a place of its own, and over another page of the program. */
    void *moved = mremap(page_of(5), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)0x10000000);
    CHECK(moved == (void *)0x10000000 && ((function)moved)() == 5);
    moved = mremap(page_of(6), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page_of(7));
    CHECK(moved == page_of(7) && function7() == 6);
    /* Moved away, written there, and moved back. */
    moved = mremap(page_of(8), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)0x10010000);
    CHECK(moved == (void *)0x10010000 && mprotect(moved, PAGE, RW) == 0);
    put_code(moved, 9);
    CHECK(mremap(moved, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page_of(8)) == page_of(8));
    CHECK(mprotect(page_of(8), PAGE, RX) == 0 && function8() == 9);
    /* Written and thrown away, then written again; and at last out of reach. */
    CHECK(mprotect(page_of(9), PAGE, RW) == 0);
    put_code(page_of(9), 2);
    CHECK(madvise(page_of(9), PAGE, MADV_DONTNEED) == 0);
    put_code(page_of(9), 2);
    CHECK(mprotect(page_of(9), PAGE, PROT_NONE) == 0);
    if (argc > 2) take_memory();
    printf("all is changed\n");
    return 0;
}
