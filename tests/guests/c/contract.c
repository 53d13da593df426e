/* The start contract: arguments, environment, auxiliary vector, stack, registers, thread-local storage, arithmetic.
   Prints nothing that depends on where things lie, so the host and a node must print the same. */
#include <elf.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

static __thread int initialised = 42;
static __thread char zeroed[4096];
static char bss[1 << 20];
static const char *relocated[] = {"one", "two", "three"};

int main(int argc, char **argv, char **envp) {
    for (int i = 0; i < argc; i++) printf("argv[%d]=%s\n", i, i == 0 ? "program" : argv[i]);
    printf("argv[argc] is null: %d\n", argv[argc] == NULL);
    for (char **variable = envp; *variable; variable++)
        if (strncmp(*variable, "GUEST_", 6) == 0) printf("env %s\n", *variable);

    printf("page size %lu, clock ticks %lu, secure %lu\n", getauxval(AT_PAGESZ), getauxval(AT_CLKTCK), getauxval(AT_SECURE));
    printf("program header entry %lu, count known %d\n", getauxval(AT_PHENT), getauxval(AT_PHNUM) >= 4);
    const Elf64_Phdr *headers = (const Elf64_Phdr *)getauxval(AT_PHDR);
    int loads = 0;
    for (unsigned long i = 0; i < getauxval(AT_PHNUM); i++) loads += headers[i].p_type == PT_LOAD;
    printf("loads seen through the headers %d\n", loads);
    printf("entry known %d, execfn known %d\n", getauxval(AT_ENTRY) != 0, getauxval(AT_EXECFN) != 0);
    const unsigned char *random = (const unsigned char *)getauxval(AT_RANDOM);
    int different = 0;
    for (int i = 1; i < 16; i++) different += random[i] != random[0];
    printf("random bytes differ %d\n", different > 3);
    printf("ids agree %d\n", getauxval(AT_UID) == getuid() && getauxval(AT_EGID) == getegid());
    printf("clock vdso absent or usable %d\n", clock_gettime(CLOCK_MONOTONIC, &(struct timespec){0}) == 0);

    printf("tls %d %d\n", initialised, zeroed[17]);
    unsigned long sum = 0;
    for (size_t i = 0; i < sizeof bss; i++) sum += (unsigned char)bss[i];
    bss[4096] = 1;
    printf("bss sum %lu then %d\n", sum, bss[4096]);
    printf("relocated %s %s %s\n", relocated[0], relocated[1], relocated[2]);

    double x = 0;
    for (int i = 1; i <= 100000; i++) x += sin(i) / i;
    printf("sum %.12f\n", x);
    char *heap = malloc(64 << 20);
    memset(heap, 7, 3 << 20);
    printf("heap %d\n", heap[2 << 20]);
    free(heap);
    printf("aligned %d\n", ((uintptr_t)__builtin_frame_address(0) & 15) == 0);
    fflush(stdout);
    fprintf(stderr, "to standard error\n");
    return argc > 1 ? atoi(argv[1]) : 0;
}
