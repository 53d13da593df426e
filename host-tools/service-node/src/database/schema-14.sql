-- Version 14: what became of ranks, many to a row: those that were told of together. Rows of `ranks` are of jobs that
-- ended before.

CREATE TABLE rank_reports (
    job             INTEGER NOT NULL REFERENCES jobs (job) ON DELETE CASCADE,
    first           INTEGER NOT NULL,               -- the rank that comes first in it, which is in no other row
    reports         BLOB NOT NULL,                  -- a byte that says how they are written, and the reports
    PRIMARY KEY (job, first)
) STRICT, WITHOUT ROWID;
