/* Opening: flags, kinds of files, permissions. */
static void opens(void) {
    begin("open");
    make_long_names();
    make("f", "some bytes");
    mkdir("d", 0755), make("d/f", "other"), mkdir("empty", 0755);
    symlink("f", "to-f"), symlink("d", "to-d"), symlink("nowhere", "dangling"), symlink("loop-b", "loop-a");
    symlink("loop-a", "loop-b"), symlink("to-f", "to-to-f"), symlink("d/new", "into-d");
    static const char *const paths[] = {"f", "d", "to-f", "to-d", "dangling", "loop-a", "f/x", "d/f", "missing/x", "", "f/", "d/", "to-d/", "."};
    static const struct { const char *name; int flags; } ways[] = {
        {"O_RDONLY", O_RDONLY}, {"O_RDWR", O_RDWR}, {"O_DIRECTORY", O_DIRECTORY}, {"O_NOFOLLOW", O_NOFOLLOW},
        {"O_NOFOLLOW|O_DIRECTORY", O_NOFOLLOW | O_DIRECTORY}, {"O_PATH|O_NOFOLLOW", O_PATH | O_NOFOLLOW},
        {"O_CREAT|O_EXCL", O_CREAT | O_EXCL | O_WRONLY}, {"O_WRONLY|O_DIRECTORY", O_WRONLY | O_DIRECTORY},
        {"O_RDWR|O_APPEND", O_RDWR | O_APPEND}, {"O_TMPFILE without writing", O_TMPFILE}};
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++)
        for (unsigned j = 0; j < sizeof ways / sizeof *ways; j++) {
            char call[300];
            snprintf(call, sizeof call, "open(\"%s\", %s)", paths[i], ways[j].name);
            int fd = said_fd(call, open(paths[i], ways[j].flags, 0640));
            if (fd >= 0) close(fd);
            /* What the way made is not there for the next one. */
            if (ways[j].flags & O_CREAT && fd >= 0) see(paths[i]), unlink(paths[i]);
        }
    O(open("f", O_RDONLY | O_CREAT, 0600));
    O(open("into-d", O_RDWR | O_CREAT, 0666));
    see("d/new");
    O(open("dangling", O_RDWR | O_CREAT | O_NOFOLLOW, 0666));
    O(open("dangling", O_RDWR | O_CREAT | O_EXCL, 0666));
    O(open("d", O_CREAT, 0644));
    O(open("d", O_RDONLY | O_TRUNC));
    O(open("new/", O_RDWR | O_CREAT, 0644));
    O(open("f/.", O_RDONLY));
    O(open("d/../f", O_RDONLY));
    O(open("missing/../f", O_RDONLY));
    O(open("to-d/../f", O_RDONLY));
    O(open(name_255, O_RDWR | O_CREAT, 0644));
    O(open(name_256, O_RDWR | O_CREAT, 0644));
    O(open(path_4095, O_RDONLY));
    O(open(path_4096, O_RDONLY));
    O(open("f", O_ACCMODE));
    O(open("f", O_RDONLY | O_TRUNC));
    see("f");
    make("f", "some bytes");
    O(open("to-f", O_WRONLY | O_TRUNC));
    see("f");
    O(open("made-0", O_RDWR | O_CREAT, 0));
    see("made-0");
    O(open("made-sticky", O_RDWR | O_CREAT, 01777));
    see("made-sticky");
    int f, d;
    F(f, open("made-read-only", O_RDWR | O_CREAT | O_EXCL, 0444));
    C(write(f, "written", 7));
    close(f);
    see("made-read-only");
    F(d, open("d", O_RDONLY | O_DIRECTORY));
    O(openat(d, "f", O_RDONLY));
    O(openat(d, "../f", O_RDONLY));
    O(openat(d, "", O_RDONLY));
    O(openat(-1, "f", O_RDONLY));
    F(f, open("f", O_RDONLY));
    O(openat(f, "f", O_RDONLY));
    O(openat(f, path_4096, O_RDONLY));
    close(f), close(d);
    F(f, open("d", O_TMPFILE | O_RDWR, 0600));
    if (f >= 0) {
        C(write(f, "temporary", 9));
        struct stat status;
        fstat(f, &status);
        printf("  ");
        attributes_of(&status);
        puts("");
        close(f);
    }
}

/* For who runs as root these succeed; on both sides. */
static void permissions(void) {
    begin("permissions");
    make("secret", "nobody reads"), chmod("secret", 0);
    make("fixed", "nobody writes"), chmod("fixed", 0444);
    mkdir("closed", 0755), make("closed/f", "in there"), chmod("closed", 0);
    mkdir("kept", 0755), make("kept/f", "stays"), chmod("kept", 0555);
    O(open("secret", O_RDONLY));
    O(open("fixed", O_RDWR));
    O(open("fixed", O_RDONLY | O_TRUNC));
    see("fixed");
    O(open("closed/f", O_RDONLY));
    O(open("closed", O_RDONLY));
    O(open("kept/new", O_RDWR | O_CREAT, 0644));
    C(mkdir("kept/d", 0755));
    C(unlink("kept/f"));
    C(rename("kept/new", "moved"));
    C(truncate("fixed", 3));
    C(access("secret", R_OK));
    C(access("secret", X_OK));
    C(access("fixed", W_OK));
    C(access("closed/f", F_OK));
    C(access("missing", F_OK));
    C(access("f", 8));
    C(access("dangling", F_OK));
    C(faccessat(AT_FDCWD, "dangling", F_OK, AT_SYMLINK_NOFOLLOW));
    C(faccessat(AT_FDCWD, "loop-a", F_OK, 0));
    C(chmod("closed", 0755));
    C(chmod("kept", 0755));
    C(chmod("missing", 0755));
    C(chmod("dangling", 0755));
    C(chmod("f/x", 0755));
    C(chmod("loop-a", 0755));
    C(chmod(name_256, 0755));
    C(fchmod(-1, 0755));
    C(syscall(SYS_fchmodat, AT_FDCWD, "to-f", 0600));
    see("f");
    see("to-f");
    C(chmod("to-d", 0700));
    see("d");
    C(chmod("d", 0755));
}
