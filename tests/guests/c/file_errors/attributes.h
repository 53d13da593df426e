/* What calls do to a file's attributes. */
static void attributes(void) {
    begin("attributes");
    make("t", "0123456789");
    mkdir("dir", 0755), make("dir/f", "");
    int f;
    F(f, open("t", O_RDWR));
    CHANGES_FD(f, pwrite(f, "x", 1, 3));
    CHANGES_FD(f, pwrite(f, "x", 1, 30));
    CHANGES_FD(f, pwrite(f, "", 0, 50));
    CHANGES_FD(f, pread(f, bytes, 10, 0));
    CHANGES_FD(f, ftruncate(f, 31));
    CHANGES_FD(f, ftruncate(f, 5));
    CHANGES_FD(f, ftruncate(f, 9000));
    CHANGES("t", truncate("t", 9000));
    CHANGES("t", truncate("t", 100));
    CHANGES_FD(f, fallocate(f, FALLOC_FL_KEEP_SIZE, 0, 8192));
    CHANGES_FD(f, fallocate(f, 0, 0, 200));
    CHANGES_FD(f, fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 50));
    CHANGES_FD(f, fchmod(f, 0640));
    CHANGES("t", chmod("t", 0604));
    CHANGES_FD(f, fchown(f, -1, -1));
    CHANGES_FD(f, fsync(f));
    CHANGES("t", rename("t", "t2"));
    CHANGES("t2", link("t2", "t"));
    CHANGES("t2", unlink("t"));
    CHANGES("t2", close(open("t2", O_WRONLY)));
    CHANGES("t2", close(open("t2", O_WRONLY | O_TRUNC)));
    CHANGES("t2", close(open("t2", O_WRONLY | O_TRUNC)));
    CHANGES("t2", close(open("t2", O_WRONLY | O_CREAT, 0600)));
    CHANGES("t2", write(f, "again", 5));
    CHANGES("t2", copy_file_range(f, &(loff_t){0}, f, &(loff_t){10}, 3, 0));
    close(f);
    begin("directories");
    CHANGES("dir", close(open("dir/new", O_RDWR | O_CREAT, 0644)));
    CHANGES("dir", close(open("dir/new", O_RDWR | O_CREAT, 0644)));
    CHANGES("dir", chmod("dir/new", 0600));
    CHANGES("dir", rename("dir/new", "dir/newer"));
    CHANGES("dir", link("dir/newer", "dir/second"));
    CHANGES("dir", unlink("dir/second"));
    CHANGES("dir", symlink("x", "dir/symbolic"));
    CHANGES("dir", mkdir("dir/sub", 0755));
    CHANGES("dir", rmdir("dir/sub"));
    CHANGES("dir", rename("dir/newer", "taken-out"));
    CHANGES("dir", unlink("dir/missing"));
    F(f, open("dir/f", O_RDWR));
    CHANGES("dir", write(f, "bytes", 5));
    close(f);
}

static const struct timespec long_ago[2] = {{1000, 500}, {2000, 700}};

/* A time that was set stays, whatever was written before it. */
static void is_set(const char *path) {
    struct stat status;
    if (stat(path, &status)) { printf("  %s: %s\n", path, strerrorname_np(errno)); return; }
    printf("  %s: size %ld, mtime %s\n", path, (long)status.st_size,
           since(status.st_mtim) == since(long_ago[1]) ? "as it was set" : "another");
}

static void times_that_are_set(void) {
    begin("times");
    make("s", "bytes");
    int f;
    C(utimensat(AT_FDCWD, "missing", long_ago, 0));
    C(utimensat(AT_FDCWD, "f/x", long_ago, 0));
    C(utimensat(AT_FDCWD, "s", (struct timespec[]){{0, 1000000000}, {0, 0}}, 0));
    C(utimensat(AT_FDCWD, "s", long_ago, 0x8000));
    C(futimens(-1, long_ago));
    C(utimensat(AT_FDCWD, "dangling", long_ago, 0));
    C(utimensat(AT_FDCWD, "dangling", long_ago, AT_SYMLINK_NOFOLLOW));
    CHANGES("s", utimensat(AT_FDCWD, "s", (struct timespec[]){{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}}, 0));
    CHANGES("s", utimensat(AT_FDCWD, "s", (struct timespec[]){{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}}, 0));
    CHANGES("s", utimensat(AT_FDCWD, "s", 0, 0));
    CHANGES("s", utimensat(AT_FDCWD, "s", long_ago, 0));
    is_set("s");
    F(f, open("s", O_RDWR));
    C(write(f, "written before", 14));
    C(futimens(f, long_ago));
    is_set("s");
    C(fsync(f));
    is_set("s");
    C(close(f));
    is_set("s");
    F(f, open("s", O_RDWR | O_APPEND));
    C(write(f, "more", 4));
    C(utimensat(AT_FDCWD, "s", long_ago, 0));
    C(read(f, bytes, 100));
    C(close(f));
    is_set("s");
    F(f, open("s", O_RDWR));
    CHANGES("s", write(f, "x", 1));
    C(futimens(f, long_ago));
    C(ftruncate(f, 3));
    is_set("s");
    C(syscall(SYS_utimensat, f, 0, long_ago, 0));
    C(rename("s", "s2"));
    is_set("s2");
    C(fchmod(f, 0600));
    is_set("s2");
    C(close(f));
    is_set("s2");
}
