/* Where a node means to differ from Linux: what the generator leaves out, and why. docs/linux.md has the same list. */
enum difference {
    CONNECTED_AT_ONCE,
    HIGHEST_OFFSET,
    SHUT_DATAGRAMS,
    TWO_FAULTS,
    BANDS,
    EDGES_OF_POLLERS,
    COPIES_TO_ITSELF,
    UNTOUCHED_LOCKS,
    SET_IDS,
    SEVERAL_MAPPINGS,
    AFTER_RESET,
    NOTHING_OF_A_DIRECTORY,
    MODES_OF_CHANNELS,
    LEFT_BEHIND,
    SLOTS_OF_PIPES,
    MAPPED_SOCKETS,
    LOST_COUNTS,
    DIFFERENCES
};

static const char *const differences[DIFFERENCES] = {
    [CONNECTED_AT_ONCE] = "A connection within a node is made at once: connect(2) of a socket that must not wait gives 0, or ECONNREFUSED where nobody listens, not EINPROGRESS, and a second call EISCONN.",
    [HIGHEST_OFFSET] = "lseek(2) and copies take offsets up to 2^63 - 1; what a file system allows is looked at when a file is read or written.",
    [SHUT_DATAGRAMS] = "A datagram socket of a pair that was shut down for reading gives 0 where Linux gives EAGAIN if it must not wait.",
    [TWO_FAULTS] = "Where two things are wrong with a call (both its paths, a place and a length), the other error may be told.",
    [BANDS] = "poll(2) knows no bands of priority (POLLRDBAND, POLLWRBAND).",
    [EDGES_OF_POLLERS] = "An epoll that watches another one edge-triggered may be told of it again when a thread has taken something from that one which is still there.",
    [COPIES_TO_ITSELF] = "sendfile(2) from a file to the same file copies what was there before, not what it wrote itself.",
    [UNTOUCHED_LOCKS] = "mlock(2) touches no page, so it succeeds for pages that could not be touched.",
    [SET_IDS] = "Files of the host never get the bits for set-user-ID and set-group-ID: they are left out of every mode. chown(2) to the same owner changes nothing, not those bits either.",
    [SEVERAL_MAPPINGS] = "mremap(2) moves what is in one mapping (EFAULT), as Linux did before 6.17.",
    [AFTER_RESET] = "What a connection says after it was told once that it is broken (shutdown(2), bind(2)) may be another error.",
    [NOTHING_OF_A_DIRECTORY] = "Reading no bytes of a directory is EISDIR, as reading some is.",
    [MODES_OF_CHANNELS] = "Modes and times of what is no file (pipes, sockets, counters) cannot be changed (EPERM): nobody else could open it.",
    [SLOTS_OF_PIPES] = "A pipe holds bytes, not pages: short writes do not each take a page, and it can be made as small as what is in it.",
    [MAPPED_SOCKETS] = "mmap(2) of a socket is ENODEV and changes nothing: there is no receiving without copies.",
    [LOST_COUNTS] = "A message, a count or a signal that is read to where nothing can be written (EFAULT) is not lost.",
    [LEFT_BEHIND] = "mremap(2) leaves nothing behind where it takes pages from: MREMAP_DONTUNMAP is EINVAL.",
};

/* Whether calls are made that are known to differ; never, unless somebody looks whether they still do. */
static int makes_all;
static int may(enum difference which) { return makes_all && which < DIFFERENCES; }
