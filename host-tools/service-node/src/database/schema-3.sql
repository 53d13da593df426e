-- How many ranks of a job are on each of its nodes.
ALTER TABLE jobs ADD COLUMN ranks_per_node INTEGER NOT NULL DEFAULT 1;
