-- Version 9: the files that nodes keep without a job.

CREATE TABLE kept (
    node            INTEGER NOT NULL REFERENCES nodes (node),
    content         BLOB NOT NULL,                  -- BLAKE3 of its bytes
    pages           INTEGER NOT NULL,               -- of the file
    bytes           INTEGER NOT NULL,               -- memory they take, page tables included
    generation      INTEGER NOT NULL,               -- which boot of the node keeps it: a later one keeps nothing
    at_ns           INTEGER NOT NULL,               -- when the node said so
    PRIMARY KEY (node, content)
) STRICT;
