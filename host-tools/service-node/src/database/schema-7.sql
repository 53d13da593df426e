-- What a job asked to have staged: a list of paths and lengths.
ALTER TABLE jobs ADD COLUMN staged TEXT NOT NULL DEFAULT '[]';
