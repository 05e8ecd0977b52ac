-- Migration 7 of crawl.db: users' steps, rows that may be copied, documents that are not kept, sums of what each group
-- has, checkpoints of tasks, and what users' appenders got.

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

-- Rows that later jobs on a document may copy (`persist`), and pages whose bodies are deleted at the end of their run.

CREATE TABLE row_sources (
    document INTEGER NOT NULL,
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    job      INTEGER NOT NULL REFERENCES jobs(id),  -- made its rows of the document without a rejected record
    PRIMARY KEY (document, data_def)
) WITHOUT ROWID;

CREATE TABLE document_links (                       -- of pages whose rows may be copied: followed without reading the page
    document INTEGER NOT NULL,
    context  BLOB NOT NULL,                         -- hash of what else decides which links a page has: group, defs, settings
    links    BLOB NOT NULL,                         -- JSON compressed with zstd; empty: none
    PRIMARY KEY (document, context)
) WITHOUT ROWID;

CREATE TABLE temporary_documents (                  -- fetched for groups that keep no documents: deleted when their run ends
    run      INTEGER NOT NULL REFERENCES runs(seq),
    document INTEGER NOT NULL,
    grp      TEXT NOT NULL,
    PRIMARY KEY (run, document)
) WITHOUT ROWID;

ALTER TABLE documents ADD COLUMN pruned INTEGER NOT NULL DEFAULT 0; -- 1: its body was deleted, and it is not reused

-- Checkpoints over content: digests of rows and documents, and their sums (engine.model.content_digest).
ALTER TABLE rows ADD COLUMN digest BLOB;                        -- null: its run began before sums were recorded
ALTER TABLE documents ADD COLUMN digest BLOB;                   -- null: fetched before digests were recorded
ALTER TABLE runs ADD COLUMN summed INTEGER NOT NULL DEFAULT 0;  -- 1: its sums are exact since it began

CREATE TABLE content_sums (                         -- of a group; they move in the commits
    run          INTEGER NOT NULL REFERENCES runs(seq),
    grp          TEXT NOT NULL,
    documents    INTEGER NOT NULL,                  -- jobs that have a document
    document_sum BLOB NOT NULL,                     -- of their digests, once for each job
    rows         INTEGER NOT NULL,
    row_sum      BLOB NOT NULL,
    PRIMARY KEY (run, grp)
) WITHOUT ROWID;

-- Checkpoints of each task: its steps behind the loader. Those of earlier versions keep an empty task until their run is resumed.

CREATE TABLE task_checkpoints (
    run               INTEGER NOT NULL REFERENCES runs(seq),
    grp               TEXT NOT NULL,
    task              TEXT NOT NULL DEFAULT '',        -- empty: a step that serves all tasks of the group
    step_name         TEXT NOT NULL,
    position          INTEGER NOT NULL DEFAULT 0,      -- in the chain: the main line, then side branches
    completed         INTEGER NOT NULL,
    completed_at      REAL,
    validation_status TEXT NOT NULL CHECK (validation_status IN ('valid','provisional','invalid')),
    reason            TEXT,
    content_hash      TEXT NOT NULL,
    dependencies      TEXT NOT NULL,                   -- JSON: steps of the task or group; GROUP/STEP in another group
    kept              INTEGER NOT NULL DEFAULT 0,      -- pages done before the content changed that are not processed again
    CHECK ((completed = 1) = (completed_at IS NOT NULL)),
    CHECK (completed = 0 OR validation_status <> 'invalid'),
    CHECK (completed = 1 OR validation_status <> 'valid'),
    PRIMARY KEY (run, grp, task, step_name)
) WITHOUT ROWID;
INSERT INTO task_checkpoints (run, grp, step_name, position, completed, completed_at, validation_status, reason,
    content_hash, dependencies, kept)
SELECT run, grp, step_name, instr('seeder loader parser filter appender', step_name), completed, completed_at,
    validation_status, reason, content_hash, dependencies, kept FROM checkpoints;
DROP TABLE checkpoints;
ALTER TABLE task_checkpoints RENAME TO checkpoints;

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
