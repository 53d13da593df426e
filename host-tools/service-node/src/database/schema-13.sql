-- Version 13: jobs that ranks of others have started.

ALTER TABLE jobs ADD COLUMN spawned_by TEXT;        -- JSON: job and rank; nothing if somebody has submitted it
