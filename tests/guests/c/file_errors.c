/* What calls about files answer, and what they do to a file's attributes, also while bytes that were written may still
   wait: one line for each call, with its result or its error and what can be seen of the file afterwards. Times are
   told as what became of them since just before the call. It works in a new directory "w" of the current one. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "file_errors/said.h"
#include "file_errors/open.h"
#include "file_errors/names.h"
#include "file_errors/descriptors.h"
#include "file_errors/attributes.h"
#include "file_errors/unwritten.h"
#include "file_errors/listing.h"
#include "file_errors/limits.h"

int main(void) {
    umask(022);
    signal(SIGXFSZ, SIG_IGN);
    if (mkdir("w", 0755) || chdir("w")) return 2;
    opens();
    permissions();
    names_of_things();
    renames();
    links();
    descriptors();
    offsets();
    attributes();
    times_that_are_set();
    unwritten_bytes();
    without_a_name();
    two_descriptors();
    listings();
    limits();
    return 0;
}
