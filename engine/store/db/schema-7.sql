-- Migration 7 of crawl.db: what users' steps reported and stored, and what users' appenders got.

CREATE TABLE results (                              -- of steps on pages; of warnings, the first 1,000 of a step and code
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    run      INTEGER NOT NULL REFERENCES runs(seq),
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id), -- the unit of extraction
    grp      TEXT NOT NULL,
    task     TEXT NOT NULL,
    step     TEXT NOT NULL,
    outcome  TEXT NOT NULL CHECK (outcome IN ('ok','warning','error')),
    code     TEXT NOT NULL,
    ms       REAL NOT NULL,
    text     TEXT NOT NULL
);
CREATE INDEX results_job ON results(job);
CREATE INDEX results_error ON results(run, id) WHERE outcome = 'error';
CREATE INDEX results_warning ON results(run, id) WHERE outcome = 'warning';

CREATE TABLE unlisted_results (                     -- of a page, those without a row, so that they can be taken back
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    grp      TEXT NOT NULL,
    task     TEXT NOT NULL,
    step     TEXT NOT NULL,
    outcome  TEXT NOT NULL CHECK (outcome IN ('warning','not_applicable')),
    code     TEXT NOT NULL,
    results  INTEGER NOT NULL,
    PRIMARY KEY (job, data_def, step, outcome, code)
) WITHOUT ROWID;

CREATE TABLE result_counts (                        -- all outcomes
    run     INTEGER NOT NULL REFERENCES runs(seq),
    grp     TEXT NOT NULL,
    task    TEXT NOT NULL,
    step    TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('ok','warning','error','not_applicable')),
    code    TEXT NOT NULL,
    results INTEGER NOT NULL,
    PRIMARY KEY (run, grp, task, step, outcome, code)
) WITHOUT ROWID;

CREATE TABLE step_values (                          -- what the steps of a run share
    run   INTEGER NOT NULL REFERENCES runs(seq),
    key   TEXT NOT NULL,
    value TEXT NOT NULL,                            -- JSON
    PRIMARY KEY (run, key)
) WITHOUT ROWID;

CREATE TABLE step_checkpoints (                     -- for the next attempt at a job; deleted when it ends
    job  INTEGER PRIMARY KEY REFERENCES jobs(id),
    text TEXT NOT NULL
);

-- Users' appenders deliver rows instead of writing a file; they are never rebuilt.

ALTER TABLE outputs ADD COLUMN delivers INTEGER NOT NULL DEFAULT 0; -- 1: it has no file, and a row in deliveries
ALTER TABLE outputs ADD COLUMN error TEXT;          -- why it cannot be written now

CREATE TABLE deliveries (                           -- what an appender got; kept when its output is removed
    id         INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL REFERENCES runs(seq),
    appender   TEXT NOT NULL,
    data_def   TEXT NOT NULL,
    cursor     INTEGER NOT NULL DEFAULT 0,          -- the last row it acknowledged
    withdrawal INTEGER NOT NULL DEFAULT 0,          -- the last withdrawal it acknowledged
    rows       INTEGER NOT NULL DEFAULT 0,          -- acknowledged, without those taken back
    offered    INTEGER NOT NULL DEFAULT 0,          -- the highest row that it may have got
    batch      TEXT,                                -- JSON: the end of the batch that is being sent
    UNIQUE (run, appender, data_def)
);

CREATE TABLE withdrawals (                          -- deleted rows that an appender may have got
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery INTEGER NOT NULL REFERENCES deliveries(id),
    row      INTEGER NOT NULL,
    newest   INTEGER NOT NULL,                      -- the newest row of all when it was deleted
    counted  INTEGER NOT NULL DEFAULT 1             -- 0: it was never acknowledged
);
CREATE INDEX withdrawals_delivery ON withdrawals(delivery, id);
