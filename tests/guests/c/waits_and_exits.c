/* Says "waiting", waits for the end of its standard input and exits with the status of its argument. */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char byte;
    if (write(1, "waiting\n", 8) != 8) return 99;
    while (read(0, &byte, 1) > 0) continue;
    return argc > 1 ? atoi(argv[1]) : 0;
}
