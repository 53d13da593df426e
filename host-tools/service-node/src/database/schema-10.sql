-- Version 10: jobs that belong to nobody, and what is kept of jobs' output.

ALTER TABLE jobs ADD COLUMN detached INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN output TEXT;            -- JSON: what is kept; nothing if it was not to be

-- Logs of which it is not known what is in them.
CREATE INDEX jobs_with_open_logs ON jobs (job) WHERE output IS NOT NULL AND json_extract(output, '$.bytes') IS NULL;
