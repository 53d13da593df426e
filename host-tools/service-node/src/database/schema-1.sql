-- Compute nodes: one row for each that ever was.
CREATE TABLE nodes (
    node            INTEGER PRIMARY KEY,
    generation      INTEGER NOT NULL DEFAULT 0,     -- boots so far
    kernel          TEXT,                           -- as of the last time it was ready
    boot_ns         INTEGER,
    boot_idle_ns    INTEGER,
    memory_total    INTEGER,
    memory_kernel   INTEGER,
    memory_free     INTEGER,
    ready_at_ns     INTEGER
) STRICT;

-- The node-state table: the program each node ran last. Scheduling by retained page tables rests on it.
CREATE TABLE node_state (
    node            INTEGER PRIMARY KEY REFERENCES nodes (node),
    program         BLOB NOT NULL,                  -- BLAKE3 of its bytes
    job             INTEGER NOT NULL,
    generation      INTEGER NOT NULL,               -- which boot of the node ran it: a later one retains nothing
    at_ns           INTEGER NOT NULL
) STRICT;

-- Programs by the hash of their bytes.
CREATE TABLE programs (
    hash            BLOB PRIMARY KEY,
    bytes           INTEGER NOT NULL,
    memory_bytes    INTEGER NOT NULL,               -- what its segments take
    path            TEXT NOT NULL,                  -- where it was last submitted from
    used_at_ns      INTEGER NOT NULL,
    stored          INTEGER NOT NULL                -- whether its bytes are in the store
) STRICT;

-- Files whose hash is known, as long as none of this changes.
CREATE TABLE known_files (
    device          INTEGER NOT NULL,
    inode           INTEGER NOT NULL,
    bytes           INTEGER NOT NULL,
    modified_ns     INTEGER NOT NULL,
    changed_ns      INTEGER NOT NULL,
    hash            BLOB NOT NULL,
    used_at_ns      INTEGER NOT NULL,
    PRIMARY KEY (device, inode)
) STRICT;

CREATE TABLE jobs (
    job             INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused
    state           TEXT NOT NULL,
    name            TEXT NOT NULL,
    arguments       TEXT NOT NULL,                  -- JSON
    program         BLOB NOT NULL,
    root            TEXT NOT NULL,
    directory       TEXT NOT NULL,
    ranks           INTEGER NOT NULL,
    timeout_ms      INTEGER,
    submitted_at_ns INTEGER NOT NULL,
    started_at_ns   INTEGER,
    ended_at_ns     INTEGER,
    exit_status     INTEGER,
    reason          TEXT
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state);

-- Blocks: the nodes given to one job, in order of its ranks.
CREATE TABLE blocks (
    block           INTEGER PRIMARY KEY AUTOINCREMENT,
    job             INTEGER NOT NULL UNIQUE REFERENCES jobs (job) ON DELETE CASCADE,
    nodes           TEXT NOT NULL,                  -- JSON
    formed_at_ns    INTEGER NOT NULL,
    released_at_ns  INTEGER
) STRICT;

CREATE TABLE ranks (
    job             INTEGER NOT NULL REFERENCES jobs (job) ON DELETE CASCADE,
    rank            INTEGER NOT NULL,
    report          TEXT NOT NULL,                  -- JSON
    PRIMARY KEY (job, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE ras_events (
    event           INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ns           INTEGER NOT NULL,
    severity        TEXT NOT NULL,
    kind            TEXT NOT NULL,
    node            INTEGER,
    job             INTEGER,
    rank            INTEGER,
    address         INTEGER,
    instruction     INTEGER,
    text            TEXT NOT NULL
) STRICT;
CREATE INDEX ras_events_by_job ON ras_events (job);
CREATE INDEX ras_events_by_node ON ras_events (node);
