-- Migration 4 of crawl.db: how the records of each dataDef were filled. Counters move with the commits; those of a page
-- are kept beside them, so that they can be taken back when its work is done again.

CREATE TABLE health (                               -- of each version of a dataDef that has fields
    run      INTEGER NOT NULL REFERENCES runs(seq),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    pages    INTEGER NOT NULL DEFAULT 0,            -- it was applied to
    records  INTEGER NOT NULL DEFAULT 0,            -- that became rows or were rejected
    rejected INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, data_def)
) WITHOUT ROWID;

CREATE TABLE field_health (
    id       INTEGER PRIMARY KEY,                   -- the order of the fields
    run      INTEGER NOT NULL REFERENCES runs(seq),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    field    TEXT NOT NULL,
    defaults INTEGER NOT NULL,                      -- 1: it has a default, and may be missing
    missing  INTEGER NOT NULL DEFAULT 0,            -- in so many records, before its default
    UNIQUE (run, data_def, field)
);

CREATE TABLE page_health (
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    records  INTEGER NOT NULL,
    rejected INTEGER NOT NULL,
    missing  TEXT,                                  -- JSON: field to records; null: no field was missing
    PRIMARY KEY (job, data_def)
) WITHOUT ROWID;

ALTER TABLE runs ADD COLUMN empty_seeds TEXT;       -- JSON: by group, the lists of URLs that were empty
ALTER TABLE runs ADD COLUMN baseline TEXT;          -- JSON: what it gave, once it is DONE, for comparison with later runs
ALTER TABLE runs ADD COLUMN drops TEXT;             -- JSON: what a dataDef gave much less of during the run
ALTER TABLE runs ADD COLUMN missed TEXT;            -- JSON: what was expected of its rows and not met, with the dataDef; null: not judged

ALTER TABLE hosts ADD COLUMN records INTEGER NOT NULL DEFAULT 0;           -- of its pages
ALTER TABLE hosts ADD COLUMN records_rejected INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hosts ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;              -- requests answered with 404 or 410
