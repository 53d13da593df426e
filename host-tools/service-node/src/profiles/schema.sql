CREATE TABLE epochs (
    job INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    period_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL,
    came_ns INTEGER NOT NULL,
    ranks INTEGER NOT NULL,
    of INTEGER NOT NULL,
    missing TEXT NOT NULL,
    counters_dropped INTEGER NOT NULL,
    node_count INTEGER NOT NULL,
    -- Ranks that behave alike, in JSON.
    alike TEXT NOT NULL,
    PRIMARY KEY (job, generation, epoch)
) STRICT, WITHOUT ROWID;

CREATE INDEX epochs_by_end ON epochs (end_ns);

CREATE TABLE metrics (
    job INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    -- What it is told of: `rank`, `node`, or `counter`, which ranks offer themselves.
    of_what TEXT NOT NULL,
    metric TEXT NOT NULL,
    unit TEXT NOT NULL,
    count INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    least INTEGER NOT NULL,
    least_rank INTEGER NOT NULL,
    mean INTEGER NOT NULL,
    deviation INTEGER NOT NULL,
    p50 INTEGER NOT NULL,
    p90 INTEGER NOT NULL,
    p99 INTEGER NOT NULL,
    top TEXT NOT NULL,
    PRIMARY KEY (job, generation, epoch, of_what, metric)
) STRICT, WITHOUT ROWID;

CREATE TABLE samplings (
    job INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    hz INTEGER NOT NULL,
    PRIMARY KEY (job, generation)
) STRICT, WITHOUT ROWID;

-- Addresses one behind the other, the lowest byte first, innermost first.
CREATE TABLE stacks (
    job INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    stack BLOB NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (job, generation, stack)
) STRICT, WITHOUT ROWID;
