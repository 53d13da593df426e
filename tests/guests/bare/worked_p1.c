/* P1 of the worked example: four pages, two executed, one read, one written. Argument: the seed of what it writes. */
#include "bare.h"

MARK(0, "worked example: program P1 page0");
MARK(1, "worked example: program P1 page1");
MARK(2, "worked example: program P1 page2");

extern const volatile char page2[4096];
extern unsigned long page3[512];

IN_PAGE(1) static int one(void) { return 1; }

IN_PAGE(0) __attribute__((noreturn)) void start(const long *stack) {
    for (int i = 0; i < 512; i++)
        if (page3[i] != 0) call(231, 100, 0, 0);
    pattern_fill(page3, sizeof page3, seed_of(stack));
    wait_and_exit(stack, one() + page2[0] - 1 - 'w');
}
