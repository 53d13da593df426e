/* Says how much memory nobody uses, bytes. */
#include <stdio.h>
#include <sys/sysinfo.h>

int main(void) {
    struct sysinfo information;
    if (sysinfo(&information) != 0) return 1;
    printf("%lu\n", (unsigned long)information.freeram * information.mem_unit);
    return 0;
}
