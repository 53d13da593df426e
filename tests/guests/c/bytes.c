/* Names that are bytes. Says in hexadecimal what it was started with and what it finds by calls that take or give names:
   its arguments are a directory to make and four names in it. What is left there is for whoever started it to look at. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static void say(const char *what, const void *bytes, size_t length) {
    printf("%s ", what);
    for (size_t i = 0; i < length; i++) printf("%02x", ((const unsigned char *)bytes)[i]);
    printf("\n");
}

static void need(int is_good, const char *what) {
    if (is_good) return;
    printf("failed %s: %s\n", what, strerror(errno));
    exit(1);
}

static void say_directory(const char *what) {
    char path[8192];
    need(getcwd(path, sizeof path) != NULL, "getcwd");
    say(what, path, strlen(path));
}

static void say_link(const char *what, const char *path) {
    char text[8192];
    ssize_t length = readlink(path, text, sizeof text);
    need(length > 0, "readlink");
    say(what, text, length);
}

static void say_file(const char *what, const char *path) {
    static char text[65536];
    int file = open(path, O_RDONLY);
    ssize_t length = read(file, text, sizeof text);
    need(length >= 0, path);
    say(what, text, length);
    close(file);
}

/* Every name in the working directory, with what stat and open say of it. */
static void say_names(const char *what) {
    DIR *directory = opendir(".");
    need(directory != NULL, "opendir");
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        struct stat of, through;
        need(lstat(entry->d_name, &of) == 0, "lstat");
        need(of.st_ino == entry->d_ino, "inode");
        int file = open(entry->d_name, O_RDONLY);
        need(file >= 0, "open");
        need(fstat(file, &through) == 0, "fstat");
        close(file);
        char label[64];
        snprintf(label, sizeof label, "%s-%c%ld", what, S_ISLNK(of.st_mode) ? 'l' : S_ISDIR(of.st_mode) ? 'd' : 'f',
                 S_ISREG(through.st_mode) ? (long)through.st_size : 0L);
        say(label, entry->d_name, strlen(entry->d_name));
    }
    closedir(directory);
}

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    for (int i = 0; i < argc; i++) say("argument", argv[i], strlen(argv[i]));
    for (char **variable = environ; *variable; variable++) say("variable", *variable, strlen(*variable));
    const char *executable = (const char *)getauxval(AT_EXECFN);
    say("execfn", executable, strlen(executable));
    say_directory("directory");
    say_link("exe", "/proc/self/exe");
    say_file("cmdline", "/proc/self/cmdline");
    say_file("comm", "/proc/self/comm");
    say_names("found");

    need(mkdir(argv[1], 0755) == 0, "mkdir");
    int directory = open(argv[1], O_RDONLY | O_DIRECTORY);
    need(directory >= 0, "open of a directory");
    int file = openat(directory, argv[2], O_CREAT | O_EXCL | O_WRONLY, 0644);
    need(file >= 0 && write(file, "12345", 5) == 5 && close(file) == 0, "creat");
    need(linkat(directory, argv[2], directory, argv[3], 0) == 0, "link");
    need(chdir(argv[1]) == 0, "chdir");
    say_directory("moved");
    need(rename(argv[2], argv[4]) == 0, "rename");
    need(symlink(argv[4], argv[5]) == 0, "symlink");
    say_link("link", argv[5]);
    need(access(argv[5], R_OK) == 0 && access(argv[2], F_OK) < 0 && errno == ENOENT, "access");
    need(truncate(argv[5], 7) == 0, "truncate");
    need(unlink(argv[3]) == 0, "unlink");
    say_names("made");
    need(fchdir(directory) == 0, "fchdir");
    say_directory("back");

    /* What the kernel keeps itself takes them, too. */
    char shared[8192];
    snprintf(shared, sizeof shared, "/dev/shm/%s", argv[3]);
    file = open(shared, O_CREAT | O_EXCL | O_RDWR, 0600);
    need(file >= 0, "file in /dev/shm");
    need(chdir("/dev/shm") == 0, "chdir");
    say_names("shared");
    need(unlink(argv[3]) == 0, "unlink in /dev/shm");
    printf("done\n");
    return 0;
}
