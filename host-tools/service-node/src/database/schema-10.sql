-- Version 10: jobs that belong to nobody, and what is kept of jobs' output.

ALTER TABLE jobs ADD COLUMN detached INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN output TEXT;            -- JSON: what is kept; nothing if it was not to be
