-- Version 15: pages of files that jobs of a program have read and that nodes hold for jobs that come.

CREATE TABLE read_files (
    node            INTEGER NOT NULL REFERENCES nodes (node),
    program         BLOB NOT NULL,                  -- BLAKE3 of the program that read them last
    pages           INTEGER NOT NULL,
    bytes           INTEGER NOT NULL,               -- memory they take, what they are found by included
    generation      INTEGER NOT NULL,               -- which boot of the node holds them: a later one holds nothing
    at_ns           INTEGER NOT NULL,               -- when the node said so
    PRIMARY KEY (node, program)
) STRICT;
