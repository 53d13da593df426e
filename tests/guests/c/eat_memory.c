/* Touches more memory than any node has. */
#include <stdlib.h>
#include <string.h>

int main(void) {
    for (;;) {
        char *piece = malloc(1 << 20);
        if (!piece) return 3;
        memset(piece, 1, 1 << 20);
    }
}
