/* Takes memory, checks that all of it is zero, writes all of it and checks that too. Argument: how many MiB, or "all"
   that can be had. Prints how many MiB it took (0: all) and how many words were not as they should be. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of what can be had, left for page tables and the stack, bytes. */
#define SPARE (512UL << 10)
#define HEAP_BYTES (1UL << 20)

/* What can be had, bytes, as the kernel says. */
static unsigned long available(void) {
    char text[1024] = {0};
    FILE *file = fopen("/proc/meminfo", "r");
    if (!file || fread(text, 1, sizeof text - 1, file) == 0) exit(90);
    fclose(file);
    const char *row = strstr(text, "MemAvailable:");
    if (!row) exit(91);
    return strtoul(row + 13, NULL, 10) << 10;
}

static unsigned long nonzero(const unsigned long *words, unsigned long bytes) {
    unsigned long wrong = 0;
    for (unsigned long i = 0; i < bytes / 8; i++) wrong += words[i] != 0;
    return wrong;
}

int main(int argc, char **argv) {
    int all = argc > 1 && strcmp(argv[1], "all") == 0;
    unsigned long bytes = all ? available() - SPARE - HEAP_BYTES : strtoul(argv[1], NULL, 10) << 20;
    bytes &= ~4095UL;
    unsigned long *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED) return 92;
    /* Memory that the kernel writes to before the program does. */
    unsigned long *heap = sbrk(HEAP_BYTES), wrong = nonzero(heap, HEAP_BYTES);
    wrong += nonzero(words, bytes);
    for (unsigned long i = 0; i < bytes / 8; i++) words[i] = i * 0x9e3779b97f4a7c15UL;
    unsigned long changed = 0;
    for (unsigned long i = 0; i < bytes / 8; i++) changed += words[i] != i * 0x9e3779b97f4a7c15UL;
    printf("%lu MiB: %lu words not zero, %lu not kept\n", all ? 0 : bytes >> 20, wrong, changed);
    return bytes < (32UL << 20);
}
