-- What the transfers of a job's staged files took: a list.
ALTER TABLE jobs ADD COLUMN transfers TEXT NOT NULL DEFAULT '[]';
-- Whether a job's program was sent ahead of the launch, and why: JSON.
ALTER TABLE jobs ADD COLUMN ahead TEXT;
-- Pages that a node had or fetched when the program last ran to its end.
ALTER TABLE programs ADD COLUMN pages_touched INTEGER;
