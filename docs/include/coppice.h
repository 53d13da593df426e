/* What a C or C++ program may say to the Coppice node that it runs on. Nothing is linked: copy this file. */
#ifndef COPPICE_H
#define COPPICE_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* Says what a counter is from now on, for `coppice overlay` and `coppice profile` (docs/overlay.md). A name has 1 to 31 of
 * the characters a-z, 0-9, '_', '.' and '-', and a rank may have 16 of them.
 *
 * 0, or -1 with errno: EINVAL, it is no such name; ENOSPC, there are too many; ENOENT, this is no Coppice. Threads may call
 * it at the same time. The file stays open, once for each source file that calls this. */
static inline int coppice_counter(const char *name, uint64_t value) {
    /* -1: not opened yet; -2: there is no such file. */
    static int file = -1;
    char line[64];
    int known = __atomic_load_n(&file, __ATOMIC_ACQUIRE);
    if (known == -1) {
        int expected = -1, opened = open("/proc/coppice/counters", O_WRONLY | O_CLOEXEC);
        if (opened < 0 && errno != ENOENT)
            return -1;
        known = opened < 0 ? -2 : opened;
        if (!__atomic_compare_exchange_n(&file, &expected, known, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            if (opened >= 0)
                close(opened);
            known = expected;
        }
    }
    if (known == -2) {
        errno = ENOENT;
        return -1;
    }
    int length = snprintf(line, sizeof line, "%s %llu\n", name, (unsigned long long)value);
    if (length < 0 || length >= (int)sizeof line) {
        errno = EINVAL;
        return -1;
    }
    return write(known, line, (size_t)length) == length ? 0 : -1;
}

#endif
