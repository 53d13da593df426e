/* Says that it spins, then does, for ever. */
#include <stdio.h>
int main(void) {
    puts("spinning");
    fflush(stdout);
    for (volatile unsigned long i = 0;; i++) {}
}
