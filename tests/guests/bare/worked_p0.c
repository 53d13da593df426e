/* P0 of the worked example: pages 0, 1 and 3 are executed, page 2 is written. Argument: the seed of what it writes. */
#include "bare.h"

MARK(0, "worked example: program P0 page0");
MARK(1, "worked example: program P0 page1");
MARK(3, "worked example: program P0 page3");

extern unsigned long page2[512];

IN_PAGE(1) static int one(void) { return 1; }
IN_PAGE(3) static int three(void) { return 3; }

IN_PAGE(0) __attribute__((noreturn)) void start(const long *stack) {
    for (int i = 0; i < 512; i++)
        if (page2[i] != 0) call(231, 100, 0, 0);
    pattern_fill(page2, sizeof page2, seed_of(stack));
    wait_and_exit(stack, one() + three() - 4);
}
