/* Calls things by names that a browser would obey: `names_itself stays|crashes TEXT`. Writes TEXT and the variable BAD to
 * its standard output and its standard error, offers a counter by the name of TEXT, which is refused, and spends its
 * time in a function whose name is as bad, until it is killed; or crashes. */
#include <stdlib.h>
#include <string.h>

#include "../../../docs/include/coppice.h"

#pragma GCC optimize("no-omit-frame-pointer")

/* The test puts another name in place of this, which is as long as that at least. */
#define BAD the_test_has_another_name_for_this_that_no_source_could_have_for_a_function

static volatile unsigned long kept;

__attribute__((noinline, noclone)) void BAD(void) {
    /* Also in a function that calls none: who asks where his frame is has one. */
    __asm__ volatile("" ::"r"(__builtin_frame_address(0)));
    for (unsigned long i = 0; i < 10000000; i++)
        kept = kept * 6364136223846793005UL + i;
}

int main(int count, char **arguments) {
    if (count < 3)
        return 2;
    const char *variable = getenv("BAD");
    FILE *streams[] = {stdout, stderr};
    for (int i = 0; i < 2; i++) {
        fprintf(streams[i], "argument: %s\r\nenvironment: %s\n\r", arguments[2], variable ? variable : "");
        fflush(streams[i]);
    }
    if (coppice_counter(arguments[2], 1) != -1 || errno != EINVAL)
        return 3;
    if (strcmp(arguments[1], "crashes") == 0)
        *(volatile int *)NULL = 1;
    for (;;)
        BAD();
}
