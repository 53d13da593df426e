/* What a dynamic linker does for a program: libraries at its start and later, constructors, variables of each thread, and
 * finding itself. Says the same on a node and on Linux. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static __thread int mine = 41;
static int (*library_call)(int);

__attribute__((constructor)) static void begin(void) { puts("constructor"); }
__attribute__((destructor)) static void end(void) { puts("destructor"); }

static const char *base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int show(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    (void)data;
    /* Linux maps something of its own. */
    if (!info->dlpi_addr || info->dlpi_addr != getauxval(AT_SYSINFO_EHDR))
        printf("loaded: '%s', %d headers\n", base(info->dlpi_name), info->dlpi_phnum);
    return 0;
}

static void *thread(void *argument)
{
    (void)argument;
    mine++;
    return (void *)(intptr_t)(mine * 1000000L + library_call(1));
}

/* Whether a file with that in its path is mapped, and may be executed. */
static int is_mapped(const char *part)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, part) && strstr(line, "r-xp");
    if (maps)
        fclose(maps);
    return found;
}

int main(int count, char **arguments)
{
    char executable[4096] = "";
    if (readlink("/proc/self/exe", executable, sizeof executable - 1) < 0)
        perror("/proc/self/exe");
    printf("%d arguments, called '%s', is '%s'\n", count, base(arguments[0]), base(executable));
    printf("linker at %s, entry %s\n", getauxval(AT_BASE) ? "some place" : "0",
           getauxval(AT_ENTRY) != getauxval(AT_BASE) ? "elsewhere" : "there");

    void *library = dlopen("library.so", RTLD_NOW);
    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    library_call = (int (*)(int))dlsym(library, "library_call");
    printf("called: %d\n", library_call(2));
    for (int at = 0; at < 3; at++) {
        pthread_t id;
        void *result;
        if (pthread_create(&id, NULL, thread, NULL) || pthread_join(id, &result))
            return 2;
        printf("thread: %ld\n", (long)(intptr_t)result);
    }
    printf("here: %d, %d\n", mine, library_call(0));
    dl_iterate_phdr(show, NULL);
    /* Linux follows links first. */
    printf("mapped: %d %d\n", is_mapped("ld-") || is_mapped("libc"), is_mapped("/library.so"));

    void *mathematics = dlopen("libm.so.6", RTLD_LAZY);
    if (mathematics) {
        double (*cosine)(double) = (double (*)(double))dlsym(mathematics, "cos");
        printf("cos(1) = %.17g\n", cosine(1));
    } else {
        printf("%s\n", dlerror());
    }
    printf("no such symbol: %s\n", dlsym(library, "nothing") ? "found" : "not found");
    printf("no such library: %s\n", dlopen("libnothing.so", RTLD_NOW) ? "found" : dlerror());
    dlclose(library);
    printf("closed\n");
    return 7;
}
