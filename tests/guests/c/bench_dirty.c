/* Writes to as many pages of memory that starts as zeros as its argument says. */
#include <stdlib.h>

#define PAGE 4096
#define PAGES_MAX 4096

static volatile char memory[PAGES_MAX][PAGE];

int main(int argc, char **argv) {
    int pages = argc > 1 ? atoi(argv[1]) : 0;
    for (int page = 0; page < pages && page < PAGES_MAX; page++) memory[page][0] = 1;
    return 0;
}
