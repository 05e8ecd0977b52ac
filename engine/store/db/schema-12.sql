-- Migration 12 of crawl.db: files that fields name, and the rows that wait for them.

CREATE TABLE files (                                -- what jobs of the kind 'file' downloaded; the newest of a job counts
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    run  INTEGER NOT NULL REFERENCES runs(seq),
    job  INTEGER NOT NULL REFERENCES jobs(id),
    path TEXT NOT NULL,                             -- in the output folder of the run
    size INTEGER NOT NULL,
    hash TEXT NOT NULL,                             -- SHA-256 of the content, in hex
    type TEXT NOT NULL                              -- content type
);
CREATE INDEX files_job ON files(job);
CREATE INDEX files_hash ON files(run, hash);

CREATE TABLE held_rows (                            -- rows of a page that wait for files; never in `rows` at the same time
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    run      INTEGER NOT NULL REFERENCES runs(seq),
    job      INTEGER NOT NULL REFERENCES jobs(id),  -- of the page
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    data     TEXT NOT NULL,                         -- as in `rows`, with a URL in the place of each file
    files    TEXT NOT NULL                          -- JSON: pairs of where a URL stands in the data, and the job of its file
);
CREATE INDEX held_rows_job ON held_rows(job);
CREATE INDEX held_rows_run ON held_rows(run);

CREATE TABLE held_files (                           -- the files for which a row waits
    held INTEGER NOT NULL REFERENCES held_rows(id),
    file INTEGER NOT NULL REFERENCES jobs(id),
    PRIMARY KEY (held, file)
) WITHOUT ROWID;
CREATE INDEX held_files_file ON held_files(file);

ALTER TABLE row_counts ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0; -- held rows
