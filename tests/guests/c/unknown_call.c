/* Makes a system call (vhangup) that no compute node has, twice. */
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    for (int i = 0; i < 2; i++)
        if (syscall(SYS_vhangup) != -1 || errno != ENOSYS) return 1;
    puts("refused with ENOSYS");
    return 0;
}
