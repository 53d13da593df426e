/* A program of 16 MiB that touches four pages of it, and memory that is reserved and hardly used. */
#include <stdio.h>
#include <sys/mman.h>

static const char table[16 << 20] = {1};
static char zeroed[24 << 20];

int main(void) {
    volatile const char *pages = table;
    volatile char *memory = zeroed;
    int sum = 0;
    for (int i = 0; i < 4; i++) sum += pages[(size_t)i * (4 << 20)];
    for (int i = 0; i < 4; i++) memory[(size_t)i * (6 << 20)] = 1;
    char *reserved = mmap(NULL, 1UL << 36, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return 1;
    reserved[1UL << 35] = 1;
    printf("%d\n", sum);
    return 0;
}
