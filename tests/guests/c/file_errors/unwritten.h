/* Files with bytes that may not be on the disk yet. */
static void unwritten_bytes(void) {
    begin("unwritten");
    int f, r, n;
    F(f, open("u", O_RDWR | O_CREAT | O_EXCL, 0644));
    CHANGES("u", write(f, "first", 5));
    CHANGES_FD(f, write(f, "second", 6));
    C(pwrite(f, "far", 3, 10000));
    see("u");
    C(lseek(f, 0, SEEK_END));
    C(lseek(f, 0, SEEK_CUR));
    C(lseek(f, 11, SEEK_DATA) > 10000 ? -1 : 0);
    C(truncate("u", 7));
    C(pread(f, bytes, 100, 0));
    content("u");
    C(pwrite(f, "X", 1, 9));
    C(ftruncate(f, 20));
    content("u");
    C(chmod("u", 0));
    C(pwrite(f, "Y", 1, 19));
    see("u");
    C(chmod("u", 0444));
    C(pwrite(f, "Z", 1, 18));
    content("u");
    C(chmod("u", 0644));
    /* Cut by another open, with what waits. */
    C(pwrite(f, "gone", 4, 0));
    F(n, open("u", O_WRONLY | O_TRUNC));
    see("u");
    C(pread(f, bytes, 100, 0));
    C(pwrite(f, "W", 1, 3));
    content("u");
    C(pwrite(n, "V", 1, 5));
    C(close(n));
    content("u");
    /* Read by a name, by a link, by memory. */
    C(symlink("u", "to-u"));
    C(link("u", "u2"));
    C(pwrite(f, "link", 4, 0));
    content("to-u");
    C(pwrite(f, "LINK", 4, 0));
    content("u2");
    C(pwrite(f, "memory", 6, 0));
    F(r, open("u2", O_RDONLY));
    char *memory = mmap(0, 4096, PROT_READ, MAP_SHARED, r, 0);
    printf("  mapped: %.6s\n", memory);
    C(pwrite(f, "MEMORY", 6, 0));
    printf("  mapped: %.6s\n", memory);
    C(ftruncate(f, 3));
    printf("  mapped: %.6s\n", memory);
    munmap(memory, 4096);
    /* Copied by the host, with what waits on both sides. */
    F(n, open("copy", O_RDWR | O_CREAT, 0644));
    C(pwrite(n, "----------", 10, 0));
    C(pwrite(f, "source", 6, 0));
    C(copy_file_range(f, &(loff_t){0}, n, &(loff_t){2}, 6, 0));
    content("copy");
    C(pwrite(f, "SOURCE", 6, 0));
    C(lseek(n, 4, SEEK_SET));
    C(sendfile(n, f, &(off_t){0}, 100));
    content("copy");
    C(fallocate(n, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1, 3));
    content("copy");
    C(pwrite(n, "++", 2, 2));
    C(fallocate(n, 0, 0, 20));
    content("copy");
    C(pwrite(n, "**", 2, 8));
    C(syncfs(n));
    C(sync_file_range(n, 0, 0, 7));
    C(fdatasync(n));
    see("copy");
    close(n), close(r), close(f);
    see("u");
    /* In places that come later. */
    F(f, open("holes", O_RDWR | O_CREAT, 0644));
    for (int i = 0; i < 20; i++) pwrite(f, "#", 1, i * 700);
    see("holes");
    C(pread(f, bytes, sizeof bytes, 0));
    int marks = 0;
    for (int i = 0; i < 19 * 700 + 1; i++) marks += i % 700 == 0 ? bytes[i] == '#' : bytes[i] == 0;
    C(marks);
    close(f);
}

/* A file without a name goes on. */
static void without_a_name(void) {
    begin("nameless");
    int f, g;
    F(f, open("n", O_RDWR | O_CREAT, 0644));
    C(write(f, "unwritten", 9));
    CHANGES_FD(f, unlink("n"));
    C(pread(f, bytes, 100, 0));
    CHANGES_FD(f, write(f, " and more", 9));
    see("n");
    F(g, open("n", O_RDWR | O_CREAT | O_EXCL, 0644));
    C(pwrite(g, "another", 7, 0));
    C(pread(f, bytes, 100, 0));
    content("n");
    CHANGES_FD(f, ftruncate(f, 3));
    CHANGES_FD(f, fchmod(f, 0600));
    C(fsync(f));
    C(pread(f, bytes, 100, 0));
    C(close(f));
    content("n");
    C(unlink("n"));
    C(close(g));
    see("n");
    /* In a directory that went, too. */
    C(mkdir("gone", 0755));
    F(f, open("gone/f", O_RDWR | O_CREAT, 0644));
    C(write(f, "stays", 5));
    C(rmdir("gone"));
    C(unlink("gone/f"));
    C(rmdir("gone"));
    C(write(f, "!", 1));
    C(pread(f, bytes, 100, 0));
    C(close(f));
}

/* Two open files of one. */
static void two_descriptors(void) {
    begin("two");
    int f, g, a, b;
    F(f, open("two", O_RDWR | O_CREAT, 0644));
    F(g, open("two", O_RDWR));
    C(write(f, "0123456789", 10));
    C(read(g, bytes, 100));
    C(write(g, "g", 1));
    C(lseek(f, 0, SEEK_END));
    C(ftruncate(g, 4));
    C(read(f, bytes, 100));
    C(write(f, "f", 1));
    content("two");
    F(a, open("two", O_WRONLY | O_APPEND));
    F(b, open("two", O_WRONLY | O_APPEND));
    C(write(a, "A", 1));
    C(write(b, "BB", 2));
    C(write(a, "a", 1));
    C(pwrite(f, "-", 1, 0));
    C(write(b, "b", 1));
    content("two");
    C(close(a));
    C(fstat(a, &(struct stat){0}));
    C(write(b, ".", 1));
    C(close(b));
    C(close(f));
    C(pread(g, bytes, 100, 0));
    C(close(g));
    content("two");
    /* One that may only read sees what the other has written, whenever it was opened. */
    F(f, open("two", O_RDONLY));
    F(g, open("two", O_WRONLY | O_TRUNC));
    C(read(f, bytes, 100));
    C(write(g, "fresh", 5));
    C(read(f, bytes, 100));
    C(read(f, bytes, 100));
    C(dup2(g, f) == f ? 0 : -1);
    C(write(f, "er", 2));
    C(lseek(g, 0, SEEK_CUR));
    C(close(g));
    C(write(f, "!", 1));
    C(close(f));
    content("two");
}
