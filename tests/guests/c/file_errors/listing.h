/* Directories that change while they are listed: what stays is there once. */
#define ENTRIES 60

/* Goes on through a directory with little room, counts each entry, and says how many came. */
static long list_some(int d, int seen[ENTRIES], int calls) {
    static char some[512];
    long came = 0, got = 1;
    while (calls-- && (got = getdents64(d, some, sizeof some)) > 0)
        for (long at = 0; at < got;) {
            struct dirent64 *entry = (void *)(some + at);
            int number;
            if (sscanf(entry->d_name, "e%d", &number) == 1 && number >= 0 && number < ENTRIES) seen[number]++;
            came++;
            at += entry->d_reclen;
        }
    return got < 0 ? got : came;
}

static void tell_seen(const int seen[ENTRIES], int from, int to) {
    int once = 0, more = 0;
    for (int i = from; i < to; i++) once += seen[i] == 1, more += seen[i] > 1;
    printf("  of %d to %d: %d once, %d more often\n", from, to, once, more);
}

static void listings(void) {
    begin("listing");
    int seen[ENTRIES] = {0}, d, g;
    char path[64];
    mkdir("many", 0755);
    for (int i = 0; i < ENTRIES; i++) snprintf(path, sizeof path, "many/e%d", i), make(path, "");
    F(d, open("many", O_RDONLY | O_DIRECTORY));
    C(list_some(d, seen, -1));
    tell_seen(seen, 0, ENTRIES);
    C(list_some(d, seen, -1));
    C(lseek(d, 0, SEEK_SET));
    memset(seen, 0, sizeof seen);
    list_some(d, seen, 2);
    /* Half of what was not there yet goes, and others come. */
    for (int i = 0; i < 10; i++) snprintf(path, sizeof path, "many/e%d", i), unlink(path);
    for (int i = 0; i < 10; i++) snprintf(path, sizeof path, "many/new%d", i), make(path, "");
    C(list_some(d, seen, -1) > 30);
    tell_seen(seen, 10, ENTRIES);
    C(lseek(d, 0, SEEK_SET));
    memset(seen, 0, sizeof seen);
    C(list_some(d, seen, -1));
    tell_seen(seen, 10, ENTRIES);
    /* With no room for one entry. */
    C(lseek(d, 0, SEEK_SET));
    C(getdents64(d, bytes, 5));
    C(getdents64(d, bytes, 0));
    F(g, open("many/e20", O_RDONLY));
    C(getdents64(g, bytes, sizeof bytes));
    C(close(g));
    C(getdents64(g, bytes, sizeof bytes));
    /* Two that list do not disturb each other; a copy of a descriptor is in the same place. */
    F(g, dup(d));
    C(lseek(d, 0, SEEK_SET));
    memset(seen, 0, sizeof seen);
    list_some(d, seen, 2);
    list_some(g, seen, -1);
    tell_seen(seen, 10, ENTRIES);
    C(list_some(d, seen, -1));
    close(g);
    C(lseek(d, 0, SEEK_SET));
    F(g, open("many", O_RDONLY));
    memset(seen, 0, sizeof seen);
    list_some(d, seen, 2);
    memset(seen, 0, sizeof seen);
    C(list_some(g, seen, -1));
    tell_seen(seen, 10, ENTRIES);
    close(g);
    for (int i = 0; i < ENTRIES; i++) snprintf(path, sizeof path, "many/e%d", i), unlink(path);
    for (int i = 0; i < 10; i++) snprintf(path, sizeof path, "many/new%d", i), unlink(path);
    C(lseek(d, 0, SEEK_SET));
    C(list_some(d, seen, -1));
    C(rmdir("many"));
    C(lseek(d, 0, SEEK_SET));
    C(list_some(d, seen, -1));
    close(d);
}
