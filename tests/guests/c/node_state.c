/* Says what of the node is in use: memory that is free or the kernel's heap's, KiB; what of that heap is somebody's,
   KiB; tasks. */
#include <stdio.h>
#include <string.h>

int main(void) {
    long free_kib = 0, heap_kib = 0, used_kib = 0, kib;
    int running, tasks;
    char name[64];
    FILE *file = fopen("/proc/meminfo", "r");
    if (!file) return 1;
    while (fscanf(file, "%63s %ld kB ", name, &kib) == 2) {
        if (strcmp(name, "MemFree:") == 0) free_kib = kib;
        if (strcmp(name, "Slab:") == 0) heap_kib = kib;
        if (strcmp(name, "SUnreclaim:") == 0) used_kib = kib;
    }
    fclose(file);
    file = fopen("/proc/loadavg", "r");
    if (!file || fscanf(file, "%*s %*s %*s %d/%d", &running, &tasks) != 2) return 1;
    printf("memory %ld heap %ld tasks %d\n", free_kib + heap_kib, used_kib, tasks);
    return 0;
}
