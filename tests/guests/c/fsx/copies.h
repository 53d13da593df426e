/* Copies from file to file without the program. */
static void copy_range(void) {
    int from = slot_drawn(1, 0), to = slot_drawn(0, 1);
    if (from < 0 || to < 0 || table[to]->flags & O_APPEND) return;
    struct opening *source = table[from], *target = table[to];
    int in_place = (int)draw(4);
    long count = count_drawn(), at = place_drawn(source->file), put_at = place_drawn(target->file);
    /* Two descriptors of one open file have one position. */
    if (source == target) in_place |= 3;
    if (!(in_place & 1)) at = source->position;
    if (!(in_place & 2)) put_at = target->position;
    if (put_at > LENGTH_MAX) return;
    long there = there_is(source->file, at, count);
    int overlaps = source->file == target->file && put_at + there > at && put_at < at + there;
    tell("copy_file_range %d at %ld to %d at %ld: %ld", from, at, to, put_at, count);
    loff_t in = at, out = put_at;
    long done = 0, got;
    do {
        got = copy_file_range(fds[from], in_place & 1 ? &in : 0, fds[to], in_place & 2 ? &out : 0, (size_t)(count - done), 0);
        if (overlaps) {
            is("copy_file_range", -1, got);
            is("copy_file_range's errno", EINVAL, errno);
            return;
        }
        if (got > 0) done += got;
    } while (got > 0 && done < there);
    is("copy_file_range", there, done);
    memcpy(buffer, source->file->bytes + at, (size_t)there);
    put(target->file, put_at, there);
    if (in_place & 1) is("where it was read", at + there, in); else source->position += there;
    if (in_place & 2) is("where it was written", put_at + there, out); else target->position += there;
}

static void send_file(void) {
    int from = slot_drawn(1, 0), to = slot_drawn(0, 1);
    if (from < 0 || to < 0 || table[to]->flags & O_APPEND || table[from]->file == table[to]->file) return;
    struct opening *source = table[from], *target = table[to];
    int in_place = (int)draw(2);
    long count = count_drawn(), at = in_place ? place_drawn(source->file) : source->position, put_at = target->position;
    if (put_at > LENGTH_MAX) return;
    long there = there_is(source->file, at, count), done = 0, got;
    off_t in = at;
    tell("sendfile %d at %ld to %d at %ld: %ld", from, at, to, put_at, count);
    do {
        got = sendfile(fds[to], fds[from], in_place ? &in : 0, (size_t)(count - done));
        if (got > 0) done += got;
    } while (got > 0 && done < there);
    is("sendfile", there, done);
    memcpy(buffer, source->file->bytes + at, (size_t)there);
    put(target->file, put_at, there);
    target->position += there;
    if (in_place) is("where it was read", at + there, in); else source->position += there;
}
