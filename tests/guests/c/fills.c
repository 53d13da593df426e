/* Writes files in a directory that has little room, and prints what each call says: fills DIRECTORY. Prints nothing that
   depends on where that is. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char pattern[1 << 18];

static long said(const char *name, long result) {
    printf("%s %ld %s\n", name, result, result < 0 ? strerror(errno) : "");
    return result;
}

/* What was written is there, and nothing else. */
static void check(const char *name, int file) {
    static char bytes[1 << 18];
    struct stat status;
    fstat(file, &status);
    long at = 0, count, wrong = 0, written = 0;
    while ((count = pread(file, bytes, sizeof bytes, at)) > 0) {
        for (long i = 0; i < count; i++) {
            wrong += bytes[i] && bytes[i] != pattern[(at + i) % sizeof pattern];
            written += bytes[i] != 0;
        }
        at += count;
    }
    printf("%s: %ld bytes, %ld read, %ld written, %ld wrong\n", name, (long)status.st_size, at, written, wrong);
}

static int opened(const char *name, int flags) {
    int file = open(name, flags | O_RDWR | O_CREAT, 0644);
    said(name, file < 0 ? -1 : 0);
    return file;
}

int main(int argc, char **argv) {
    if (argc != 2 || chdir(argv[1])) return 2;
    for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = (char)(i * 2654435761u >> 13 | 1);
    /* In pieces that are no pages. */
    int file = opened("pieces", 0);
    if (file < 0) return 1;
    long at = 0;
    for (int i = 0; i < 4; i++) {
        long count = said("write", write(file, pattern + at, 2500));
        if (count > 0) at += count;
    }
    said("offset", lseek(file, 0, SEEK_CUR));
    check("pieces", file);
    /* In one. */
    int large = opened("large", 0);
    if (large < 0) return 1;
    said("write", write(large, pattern, 70000));
    said("offset", lseek(large, 0, SEEK_CUR));
    check("large", large);
    /* Behind the end, over what is there, and from several places. */
    said("pwrite", pwrite(large, pattern + 100000, 9000, 100000));
    said("pwrite", pwrite(large, pattern + 10, 4000, 10));
    struct iovec parts[3] = {{pattern, 3000}, {pattern + 3000, 3000}, {pattern + 6000, 30000}};
    int several = opened("several", O_APPEND);
    if (several < 0) return 1;
    said("writev", writev(several, parts, 3));
    said("offset", lseek(several, 0, SEEK_CUR));
    check("several", several);
    said("fallocate", fallocate(several, 0, 0, 65536));
    said("ftruncate", ftruncate(several, 100000));
    check("several", several);
    said("fsync", fsync(several));
    said("mkdir", mkdir("directory", 0755));
    said("rename", rename("pieces", "directory/pieces"));
    said("symlink", symlink("directory/pieces", "link"));
    said("ftruncate", ftruncate(large, 0));
    /* There is room again. */
    long offset = lseek(several, 0, SEEK_END) % (long)sizeof pattern;
    said("append", write(several, pattern + offset, 5000));
    check("several", several);
    check("large", large);
    return 0;
}
