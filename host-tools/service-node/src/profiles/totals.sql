-- What single ranks have done since their overlay began, by name, in JSON; what is not in it is 0.
CREATE TABLE totals (
    job INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    so_far TEXT NOT NULL,
    PRIMARY KEY (job, generation, rank, epoch)
) STRICT, WITHOUT ROWID;
