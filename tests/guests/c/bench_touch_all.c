/* Touches every page of a large piece of read-only data, and writes to its few pages of initialised data, before `main`,
   which does nothing: a program whose launch wants all of its pages. Built with -DREAD_ONLY_PAGES=N -DDATA_PAGES=N.
   With an argument, the number of a descriptor, `main` writes there what the time-stamp counter said when it began. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <x86intrin.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define PAGE 4096L

/* No two pages are alike, none is empty. */
__asm__(".section .rodata\n.balign 4096\nread_only: .set page, 0\n.rept " TEXT(READ_ONLY_PAGES) "\n"
        ".quad page + 1\n.fill 1022, 4, 0x0ddba115\n.set page, page + 1\n.endr\n.text");
extern const volatile char read_only[];
static volatile char data[DATA_PAGES * PAGE] = {1};

__attribute__((constructor)) static void touch(void) {
    for (long page = 0; page < READ_ONLY_PAGES; page++) (void)read_only[page * PAGE];
    for (long page = 0; page < DATA_PAGES; page++) data[page * PAGE] = 1;
}

int main(int argc, char **argv) {
    uint64_t began = __rdtsc();
    if (argc < 2) return 0;
    return write(atoi(argv[1]), &began, sizeof began) != sizeof began;
}
