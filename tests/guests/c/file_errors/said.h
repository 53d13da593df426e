/* How calls are told. */
static const char *section;
static int line;

static void begin(const char *name) { section = name, line = 0; }

/* A call with its result. */
static long said(const char *call, long result) {
    int error = errno;
    printf("%s %d: %s = ", section, ++line, call);
    if (result < 0) printf("%s\n", strerrorname_np(error)); else printf("%ld\n", result);
    errno = error;
    return result;
}
#define C(call) said(#call, (long)(call))

/* One that gives a descriptor, which is put there. */
static int said_fd(const char *call, int fd) {
    said(call, fd < 0 ? fd : 0);
    return fd;
}
#define F(number, call) (number = said_fd(#call, call))
/* The same, closed again at once. */
#define O(call) do { int opened = said_fd(#call, call); if (opened >= 0) close(opened); } while (0)

static void attributes_of(const struct stat *status) {
    const char *kind = S_ISREG(status->st_mode) ? "file" : S_ISDIR(status->st_mode) ? "directory" : S_ISLNK(status->st_mode) ? "link" : "other";
    printf("    %s %o, links %ld", kind, status->st_mode & 07777, S_ISDIR(status->st_mode) ? 0 : (long)status->st_nlink);
    if (S_ISREG(status->st_mode)) printf(", size %ld", (long)status->st_size);
}

/* What is there under a name. */
static void see(const char *path) {
    struct stat status;
    printf("%s %d   %s:", section, line, path);
    if (lstat(path, &status)) { printf("    %s\n", strerrorname_np(errno)); return; }
    attributes_of(&status);
    puts("");
}

static long long since(struct timespec then) { return then.tv_sec * 1000000000ll + then.tv_nsec; }

static const char *became(struct timespec before, struct timespec now) {
    return since(now) > since(before) ? "grew" : since(now) < since(before) ? "shrank" : "same";
}

/* Waits until the clock of files has gone on since a time of that. */
static void tick(const struct stat *status) {
    struct stat probe;
    long long last = since(status->st_mtim) > since(status->st_ctim) ? since(status->st_mtim) : since(status->st_ctim);
    struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
    int fd = open("../probe", O_RDWR | O_CREAT, 0644);
    long long first = 0;
    do {
        if (futimens(fd, now) || fstat(fd, &probe)) _exit(3);
        if (!first) first = since(probe.st_ctim);
    } while (since(probe.st_ctim) <= last || since(probe.st_ctim) == first);
    close(fd);
}

static void told_changes(const char *what, const struct stat *before, const struct stat *now) {
    printf("%s %d   %s:", section, line, what);
    attributes_of(now);
    printf(", mtime %s, ctime %s\n", became(before->st_mtim, now->st_mtim), became(before->st_ctim, now->st_ctim));
}

/* A call, and what it does to the file of a descriptor, or of a name. */
#define CHANGES_FD(number, call) do { \
    struct stat before, now; fstat(number, &before); tick(&before); C(call); fstat(number, &now); \
    told_changes(#number, &before, &now); } while (0)
#define CHANGES(path, call) do { \
    struct stat before, now; lstat(path, &before); tick(&before); C(call); \
    if (lstat(path, &now)) see(path); else told_changes(path, &before, &now); } while (0)

/* A file with this in it. */
static void make(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) != (long)strlen(text) || close(fd)) printf("cannot make %s\n", path);
}

static char bytes[20000];
/* A place where no memory is; told to nobody who would warn of it. */
static void *volatile nowhere = (void *)1;

/* What a file has, as far as it is short. */
static void content(const char *path) {
    int fd = open(path, O_RDONLY);
    long count = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    if (fd >= 0) close(fd);
    for (long i = 0; i < count; i++) if (!bytes[i]) bytes[i] = '0';
    printf("%s %d   %s: ", section, line, path);
    if (count < 0) puts(strerrorname_np(errno)); else printf("%ld \"%.*s\"\n", count, (int)(count < 60 ? count : 60), bytes);
}

static char name_255[256], name_256[257], path_4095[4096], path_4096[4097];

static void make_long_names(void) {
    memset(name_255, 'n', 255);
    memset(name_256, 'n', 256);
    memset(path_4095, '/', 4095), path_4095[0] = '.', path_4095[4094] = 'f';
    memset(path_4096, '/', 4096), path_4096[0] = '.', path_4096[4095] = 'f';
}
