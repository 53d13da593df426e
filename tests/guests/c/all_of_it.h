/* What the programs share that read all of themselves: so many PAGES, and a sum of what was read. If it is given a
   file, the sum is of that, too. */
#include <stdio.h>

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

/* Each page starts with a number of its own and is filled with a byte of its own. */
__asm__(".section .rodata\n"
        ".balign 4096\n"
        ".globl table\n"
        "table:\n"
        ".set page, 0\n"
        ".rept " TEXT(PAGES) "\n"
        ".quad page * 0x9e3779b9 + 1\n"
        ".fill 4088, 1, (page * 7) & 0xff\n"
        ".set page, page + 1\n"
        ".endr\n"
        ".previous\n");
extern const volatile unsigned long table[PAGES * 512UL];

int main(int argc, char **argv) {
    unsigned long sum = 0;
    for (unsigned long i = 0; i < PAGES * 512UL; i++) sum = sum * 31 + table[i];
    if (argc > 1) {
        static unsigned char part[1 << 16];
        FILE *file = fopen(argv[1], "r");
        if (!file) return perror(argv[1]), 1;
        for (size_t count; (count = fread(part, 1, sizeof part, file)) > 0;)
            for (size_t i = 0; i < count; i++) sum = sum * 31 + part[i];
        if (ferror(file)) return perror(argv[1]), 1;
    }
    printf("%lx\n", sum);
    return 0;
}
