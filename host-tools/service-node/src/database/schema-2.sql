-- What a node ran last, as the user named it, and the length of its file. (Void unless the generation is the node's.)
ALTER TABLE node_state ADD COLUMN path TEXT NOT NULL DEFAULT '';
ALTER TABLE node_state ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE node_state SET
    path = coalesce((SELECT jobs.name FROM jobs WHERE jobs.job = node_state.job), ''),
    bytes = coalesce((SELECT programs.bytes FROM programs WHERE programs.hash = node_state.program), 0);

-- The programs whose page tables nodes hold; of one node the program that ran last has the lowest rowid.
CREATE TABLE retained (
    node            INTEGER NOT NULL REFERENCES nodes (node),
    program         BLOB NOT NULL,                  -- BLAKE3 of its bytes
    pages           INTEGER NOT NULL,               -- that a launch finds
    bytes           INTEGER NOT NULL,               -- memory they take, page tables included
    generation      INTEGER NOT NULL,               -- which boot of the node holds them: a later one holds nothing
    at_ns           INTEGER NOT NULL,               -- when the node said so
    PRIMARY KEY (node, program)
) STRICT;

ALTER TABLE jobs ADD COLUMN estimate_ms INTEGER;
ALTER TABLE jobs ADD COLUMN running_at_ns INTEGER;
ALTER TABLE jobs ADD COLUMN placement TEXT;         -- JSON: which nodes and why
ALTER TABLE jobs ADD COLUMN retention TEXT;         -- JSON: what retained page tables saved
