/* What all kinds of objects share: descriptors that were made, and time that passes. */
#ifndef OBJECTS_COMMON_H
#define OBJECTS_COMMON_H
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Descriptors that a plan made, closed ones left out. Beyond this many they are held, but not remembered. */
#define KEPT_MAX 1024
static int kept[KEPT_MAX];
static int kept_count;

/* Remembers a descriptor. Returns whether it is one. */
static int keep(int descriptor) {
    if (descriptor >= 0 && kept_count < KEPT_MAX) kept[kept_count++] = descriptor;
    return descriptor >= 0;
}

/* Writes until nobody takes any more. Byte by byte no more than did not fit at once: if there is room for more, others
   made it meanwhile, and a file in memory would take millions of calls to fill it. */
static void fill(int descriptor) {
    static const char bytes[16384] = {1};
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
    while (write(descriptor, bytes, sizeof bytes) > 0) {}
    for (size_t i = 0; i < sizeof bytes && write(descriptor, bytes, 1) > 0; i++) {}
}

/* Closes that share of the descriptors, percent. */
static void close_some(int percent, const char *way) {
    (void)way;
    int stay = 0;
    for (int i = 0; i < kept_count; i++) {
        if (i * 37 % 100 < percent) close(kept[i]);
        else kept[stay++] = kept[i];
    }
    kept_count = stay;
}

/* Lets the others go on for so many milliseconds. */
static void hold(int milliseconds, const char *way) {
    (void)way;
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

/* No signal that is queued or sent ends the program or interrupts a wait. */
static void prepare(void) {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGABRT);
    sigprocmask(SIG_BLOCK, &all, NULL);
}
#endif
