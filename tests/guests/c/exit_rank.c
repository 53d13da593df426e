/* Says who it is and exits with 10 + its rank. */
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    const char *rank = getenv("COPPICE_RANK"), *size = getenv("COPPICE_SIZE");
    printf("rank %s of %s\n", rank ? rank : "?", size ? size : "?");
    return 10 + (rank ? atoi(rank) : 0);
}
