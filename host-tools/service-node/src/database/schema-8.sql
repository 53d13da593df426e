-- What the transfers of a job's staged files took: a list.
ALTER TABLE jobs ADD COLUMN transfers TEXT NOT NULL DEFAULT '[]';
