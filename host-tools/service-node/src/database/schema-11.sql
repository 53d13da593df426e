-- Version 11: jobs that go on from a checkpoint.

ALTER TABLE jobs ADD COLUMN restarted_from TEXT;    -- JOB@NUMBER; nothing if it began at its beginning
