/* Names, what is said of a file, and the whole of it. */
static void sync_one(void) {
    int slot = slot_drawn(0, 0), how = (int)draw(3);
    if (slot < 0) return;
    tell("sync (%d) %d", how, slot);
    is("sync", 0, how == 0 ? fsync(fds[slot]) : how == 1 ? fdatasync(fds[slot]) : sync_file_range(fds[slot], 0, 0, 7));
}

/* Everything that follows from what was done. Times only go on. */
static void is_so(struct stat *status, struct file *file) {
    is("length", file->length, status->st_size);
    is("names", file->links, (long)status->st_nlink);
    struct timespec now = status->st_mtim, before = file->changed;
    if (now.tv_sec < before.tv_sec || (now.tv_sec == before.tv_sec && now.tv_nsec < before.tv_nsec))
        fail("the time of the last change", before.tv_nsec, now.tv_nsec);
    file->changed = now;
}

static void look_at(void) {
    struct stat status;
    int slot = slot_drawn(0, 0), name = (int)draw(NAMES), how = (int)draw(3);
    if (how == 0) {
        tell("stat %s", path_of[name]);
        is("stat", names[name] ? 0 : -1, stat(path_of[name], &status));
        if (names[name]) is_so(&status, names[name]);
        return;
    }
    if (slot < 0) return;
    struct opening *one = table[slot];
    tell("look at %d (%d)", slot, how);
    if (how == 1) {
        is("fstat", 0, fstat(fds[slot], &status));
        is_so(&status, one->file);
    } else {
        is("position", one->position, lseek(fds[slot], 0, SEEK_CUR));
        is("flags", one->flags & (O_APPEND | O_ACCMODE), fcntl(fds[slot], F_GETFL) & (O_APPEND | O_ACCMODE));
    }
}

static void forget(int name) {
    if (!names[name]) return;
    names[name]->links--;
    let_go(names[name]);
    names[name] = 0;
}

static void rename_one(void) {
    int name = (int)draw(NAMES), other = (int)draw(NAMES);
    tell("rename %s to %s", path_of[name], path_of[other]);
    is("rename", names[name] ? 0 : -1, rename(path_of[name], path_of[other]));
    /* Two names of one file stay as they are. */
    if (!names[name] || names[name] == names[other]) return;
    forget(other);
    names[other] = names[name];
    names[name] = 0;
}

static void unlink_one(void) {
    int name = (int)draw(NAMES);
    tell("unlink %s", path_of[name]);
    is("unlink", names[name] ? 0 : -1, unlink(path_of[name]));
    forget(name);
}

static void link_one(void) {
    int name = (int)draw(NAMES), other = (int)draw(NAMES);
    tell("link %s as %s", path_of[name], path_of[other]);
    is("link", names[name] && !names[other] ? 0 : -1, link(path_of[name], path_of[other]));
    if (!names[name] || names[other]) return;
    names[other] = hold(names[name]);
    names[name]->links++;
}

/* All of a file, by one read and as memory, by a descriptor of its own. */
static void whole(void) {
    int name = (int)draw(NAMES);
    struct file *file = names[name];
    if (!file) return;
    tell("all of %s", path_of[name]);
    int fd = open(path_of[name], O_RDONLY);
    if (fd < 0) fail("open", 0, fd);
    is("read", file->length, read(fd, buffer, BUFFER_BYTES));
    compare("read", buffer, file, 0, file->length);
    if (file->length) {
        unsigned char *memory = mmap(0, (size_t)file->length, PROT_READ, MAP_PRIVATE, fd, 0);
        if (memory == MAP_FAILED) fail("mmap", 0, 1);
        compare("mmap", memory, file, 0, file->length);
        look_behind(memory, file, 0, file->length);
        is("munmap", 0, munmap(memory, (size_t)file->length));
    }
    is("close", 0, close(fd));
}
