-- Version 12: jobs of which checkpoints are made by themselves, and which go on from these when they have lost a node.

ALTER TABLE jobs ADD COLUMN checkpoint_policy TEXT; -- JSON: how often, how many stay; nothing if none are made
ALTER TABLE jobs ADD COLUMN checkpoints_made TEXT;  -- JSON: how many, and the last; nothing if there was none
ALTER TABLE jobs ADD COLUMN continued_as TEXT;      -- JSON: as which job, and from where; nothing if it does not go on
