/* `keeps_open FILE`: reads all of a file in calls of 4 KiB, says `read`, and ends when somebody says something. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static char part[4096];
    long bytes = 0, count;
    int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    if (file < 0) return perror("open"), 1;
    while ((count = read(file, part, sizeof part)) > 0) bytes += count;
    printf("read\n");
    fflush(stdout);
    char answer;
    if (read(0, &answer, 1) < 0) return 1;
    printf("%ld bytes\n", bytes);
    return count < 0;
}
