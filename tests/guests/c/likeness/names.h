/* Names: a small tree, and the calls that make, move and remove what is in it. */
static const char *some_name(void) { return CHOOSE_TEXT("a", "b", "c", "d"); }

static char long_path[2][5000];

/* A path of so many bytes that leads to "a". */
static const char *padded_path(char *out, size_t bytes) {
    memset(out, '/', bytes);
    out[0] = '.';
    out[bytes - 1] = 'a';
    out[bytes] = 0;
    return out;
}

/* A path for a call; it is said, too. */
static const char *some_path(unsigned which) {
    static char paths[2][600];
    char *path = paths[which];
    switch (chance(2) ? pick(9) : pick(24)) {
    case 0: case 1: case 2: case 3: case 4: case 5: case 6: case 7: case 8:
        strcpy(path, some_name());
        break;
    case 9: case 10: case 11: case 12:
        sprintf(path, "%s/%s", some_name(), some_name());
        break;
    case 13: case 14:
        sprintf(path, "%s/%s/%s", some_name(), some_name(), some_name());
        break;
    case 15: sprintf(path, "./%s//%s", some_name(), some_name()); break;
    case 16: sprintf(path, "%s/", some_name()); break;
    case 17: sprintf(path, "%s/../%s", some_name(), some_name()); break;
    case 18: strcpy(path, CHOOSE_TEXT(".", "..", "", "./", "a/.", "a/..", "b/..", "../w/a", "c/.", "d/..")); break;
    case 19: strcpy(path, CHOOSE_TEXT("/w/a", "/w/b/a", "/nowhere/x", "/", "/..", "/../w/d", "//w//a")); break;
    case 20: {
        size_t length = CHOOSE(254u, 255u, 256u);
        memset(path, 'n', length);
        path[length] = 0;
        say("<name of %zu>", length);
        return path;
    }
    case 21: {
        size_t length = CHOOSE(4000u, 4096u, 4097u);
        say("<path of %zu>", length);
        return padded_path(long_path[which], length);
    }
    case 22:
        if (which == 0 || may(TWO_FAULTS)) {
            say("<bad>");
            return bad_pointer();
        }
        /* fall through */
    default:
        strcpy(path, some_name());
    }
    say("\"%s\"", path);
    return path;
}

/* A directory for a call with a path: most often the working directory. */
static int some_place(void) {
    if (chance(4)) {
        int number = some_descriptor(OF(DIRECTORY) | OF(PLACE));
        say(", ");
        return number;
    }
    say("cwd, ");
    return AT_FDCWD;
}

static unsigned some_mode(void) {
    unsigned mode = CHOOSE(0777u, 0644u, 0600u, 0755u, 0400u, 0u, 01777u, 04755u, 02755u, 0177777u);
    return may(SET_IDS) ? mode : mode & ~06000u;
}

/* Makes something of the tree without failing too often. */
static void make_call(void) {
    const char *name = chance(2) ? some_name() : NULL;
    if (chance(2)) {
        unsigned mode = chance(2) ? 0777 : some_mode();
        say("mkdirat(");
        int place = some_place();
        if (name) say("\"%s\"", name); else name = some_path(0);
        say(", %o)", mode);
        gave(syscall(SYS_mkdirat, place, name, mode));
    } else {
        say("symlinkat(");
        char text[64];
        const char *target = text;
        if (chance(16))
            target = some_path(1);
        else
            strcpy(text, CHOOSE_TEXT("a", "b", "c", "d", "a/b", "../w/c", "/w/d", ".", "missing", "", "b/../a", "c/"));
        if (target == text) say("\"%s\"", text);
        say(", ");
        int place = some_place();
        if (name) say("\"%s\"", name); else name = some_path(0);
        say(")");
        gave(syscall(SYS_symlinkat, target, place, name));
    }
}

static void remove_call(void) {
    if (chance(4)) {
        say("rmdir(");
        const char *path = some_path(0);
        say(")");
        gave(syscall(SYS_rmdir, path));
        return;
    }
    int flags = CHOOSE(0, 0, 0, AT_REMOVEDIR, AT_REMOVEDIR, 1, AT_SYMLINK_NOFOLLOW);
    say("unlinkat(");
    int place = some_place();
    const char *path = some_path(0);
    say(", %#x)", flags);
    gave(syscall(SYS_unlinkat, place, path, flags));
}

static void rename_call(void) {
    unsigned flags = CHOOSE(0u, 0u, 0u, 0u, 1u, 2u, 3u, 8u);
    say("renameat2(");
    int from_place = some_place();
    const char *from = some_path(0);
    say(", ");
    int to_place = may(TWO_FAULTS) ? some_place() : AT_FDCWD;
    const char *to = some_path(1);
    say(", %u)", flags);
    gave(syscall(SYS_renameat2, from_place, from, to_place, to, flags));
}

static void link_call(void) {
    int flags = CHOOSE(0, 0, 0, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH, 1);
    say("linkat(");
    int from_place = some_place();
    const char *from = some_path(0);
    say(", ");
    int to_place = may(TWO_FAULTS) ? some_place() : AT_FDCWD;
    const char *to = some_path(1);
    say(", %#x)", flags);
    gave(syscall(SYS_linkat, from_place, from, to_place, to, flags));
}

static void readlink_call(void) {
    int length = CHOOSE(4096, 100, 1, 0, -1);
    say("readlinkat(");
    int place = some_place();
    const char *path = some_path(0);
    void *where = chance(16) ? bad_pointer() : buffer;
    say(", %s, %d)", where == buffer ? "buffer" : "bad", length);
    long result = gave(syscall(SYS_readlinkat, place, path, where, length));
    if (result > 0) say(" \"%.*s\"", (int)result, (char *)buffer);
}

static int by_name(const void *one, const void *other) { return strcmp(*(char *const *)one, *(char *const *)other); }

/* The whole of a directory, with a buffer of some size. */
static void list_call(void) {
    static char entries[16384];
    char *names[128];
    unsigned count = 0;
    size_t used = 0, room = CHOOSE(280u, 300u, 1024u, 8192u);
    say("getdents64(");
    int number = some_descriptor(OF(DIRECTORY));
    say(", %zu)", room);
    struct live *one = find_live(number);
    if (one && one->kind == DIRECTORY) lseek(number, 0, SEEK_SET);
    long got;
    while ((got = syscall(SYS_getdents64, number, buffer, room)) > 0)
        for (long at = 0; at < got;) {
            struct dirent64 *entry = (void *)(buffer + at);
            if (count < 128 && used < sizeof entries - 300) {
                names[count++] = entries + used;
                used += (size_t)sprintf(entries + used, "%.255s:%d", entry->d_name, entry->d_type) + 1;
            }
            at += entry->d_reclen;
        }
    gave(got);
    qsort(names, count, sizeof *names, by_name);
    for (unsigned i = 0; i < count; i++)
        if (strlen(names[i]) < 100) say(" %s", names[i]); else say(" <%zu>", strlen(names[i]));
}

/* Goes somewhere, looks where that is, and comes back. */
static void change_directory_call(void) {
    static char where[8192];
    if (chance(3)) {
        say("fchdir(");
        int number = some_descriptor(OF(DIRECTORY) | OF(PLACE));
        say(")");
        if (gave(syscall(SYS_fchdir, number)) != 0) return;
    } else {
        say("chdir(");
        const char *path = some_path(0);
        say(")");
        if (gave(syscall(SYS_chdir, path)) != 0) return;
    }
    if (gave_some(syscall(SYS_getcwd, where, sizeof where), "there") > 0) say(" \"%.100s\"", where);
    struct stat status;
    if (gave(stat("a", &status)) == 0) say(" {%o}", status.st_mode);
    if (chdir("/w") != 0) _exit(17);
}

/* The calls that begin at the working directory. */
static void older_call(void) {
    unsigned which = pick(6), mode = some_mode();
    static const char *const calls[] = {"access", "creat", "mkdir", "unlink", "rename", "chmod"};
    if (which == 1 && count_live() > 14) { close_one(live_of(ANY_KIND)); return; }
    say("%s(", calls[which]);
    const char *path = some_path(0), *other = NULL;
    if (which == 4) say(", "), other = some_path(1);
    say(", %o)", mode);
    long result = which == 0   ? syscall(SYS_access, path, mode & 15)
                  : which == 1 ? syscall(SYS_creat, path, mode)
                  : which == 2 ? syscall(SYS_mkdir, path, mode)
                  : which == 3 ? syscall(SYS_unlink, path)
                  : which == 4 ? syscall(SYS_rename, path, other)
                               : syscall(SYS_chmod, path, mode);
    gave(result);
    if (which == 1) add_live(result, FILE_KIND);
}

static void names_call(void) {
    switch (pick(18)) {
    case 0: case 1: case 2: case 3: case 4: case 5: make_call(); break;
    case 6: case 7: remove_call(); break;
    case 8: case 9: case 10: rename_call(); break;
    case 11: case 12: link_call(); break;
    case 13: readlink_call(); break;
    case 14: change_directory_call(); break;
    case 15: older_call(); break;
    default: list_call();
    }
}
