/* Says which version of itself it is. */
#include <stdio.h>

static volatile const char version[] = "this is version A";

int main(void) {
    for (const volatile char *letter = version; *letter; letter++) putchar(*letter);
    putchar('\n');
    return 0;
}
