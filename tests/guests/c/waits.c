/* Threads and ranks that wait for people, and one that needs its files and pages meanwhile.
   `print RANK`: all ranks but this one print until nobody takes it any more; then this one does its work.
   `after BYTES`: reads so many bytes of standard input, then does its work.
   `input THREADS`: so many threads wait for standard input while the first one does its work; then each reads a byte.
   The work: makes /done once files can be opened, read and mapped, and pages of the program can be had. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Not read before the work: it has to be fetched then. */
static const char pages[1 << 20] = {[0 ... (1 << 20) - 1] = 7};

static void expect(int condition, const char *what) {
    if (!condition) {
        perror(what);
        exit(1);
    }
}

static void work(void) {
    char block[4096];
    int data = open("/data", O_RDONLY);
    expect(data >= 0, "open /data");
    for (int turn = 0; turn < 16; turn++) expect(pread(data, block, sizeof block, turn * 4096) == 4096, "read /data");
    const volatile char *map = mmap(0, 16 * 4096, PROT_READ, MAP_PRIVATE, data, 0);
    expect(map != MAP_FAILED, "map /data");
    int sum = 0;
    for (int page = 0; page < 16; page++) sum += map[page * 4096] == 'd';
    for (size_t page = 0; page < sizeof pages; page += 4096) sum += ((const volatile char *)pages)[page] == 7;
    expect(sum == 16 + sizeof pages / 4096, "pages");
    int log = open("/log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    expect(write(log, "worked\n", 7) == 7, "append");
    expect(mkdir("/done", 0755) == 0, "mkdir /done");
}

/* What was printed, of all ranks on the node. */
static atomic_ulong *printed(void) {
    int shared = open("/dev/shm/printed", O_RDWR | O_CREAT, 0644);
    expect(shared >= 0 && ftruncate(shared, 4096) == 0, "/dev/shm/printed");
    void *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    expect(memory != MAP_FAILED, "map /dev/shm/printed");
    return memory;
}

static void *wait_for_input(void *taken) {
    char byte;
    expect(read(0, &byte, 1) == 1, "read");
    atomic_fetch_add((atomic_int *)taken, 1);
    return 0;
}

int main(int argc, char **argv) {
    expect(argc == 3, "arguments");
    int number = atoi(argv[2]);
    if (!strcmp(argv[1], "print")) {
        atomic_ulong *bytes = printed();
        if (atoi(getenv("COPPICE_RANK")) != number) {
            static char line[65536];
            memset(line, 'x', sizeof line);
            for (;;) {
                ssize_t count = write(1, line, sizeof line);
                expect(count > 0, "print");
                atomic_fetch_add(bytes, count);
            }
        }
        /* Nobody prints when nothing more was printed through many calls. */
        unsigned long last = 0;
        struct stat status;
        for (int same = 0; same < 100;) {
            expect(stat("/data", &status) == 0, "stat /data");
            unsigned long now = atomic_load(bytes);
            same = now == last && now > 0 ? same + 1 : 0;
            last = now;
        }
        work();
        return 0;
    }
    if (!strcmp(argv[1], "after")) {
        puts("ready");
        fflush(stdout);
        while (number-- > 0) expect(getchar() != EOF, "read");
        work();
        return 0;
    }
    atomic_int taken = 0;
    pthread_t threads[number];
    for (int i = 0; i < number; i++) expect(!pthread_create(&threads[i], 0, wait_for_input, &taken), "thread");
    work();
    for (int i = 0; i < number; i++) pthread_join(threads[i], 0);
    printf("%d\n", taken);
    return 0;
}
