/* A library that a program loads while it runs: with a constructor, data of its own, and a variable of each thread. */
#include <stdio.h>

static __thread int calls = 100;
static int all = 5;

/* Two pages that are in the file. */
char library_data[8192] = {[0 ... 8191] = 1};

__attribute__((constructor)) static void begin(void) { puts("library: constructor"); }
__attribute__((destructor)) static void end(void) { puts("library: destructor"); }

int library_call(int by)
{
    calls += by;
    all += by;
    return calls * 1000 + all;
}
