-- Migration 7 of crawl.db: sums of what each group has, so that a checkpoint covers its content.

-- Checkpoints over content: digests of rows and documents, and their sums (engine.model.content_digest).
ALTER TABLE rows ADD COLUMN digest BLOB;                        -- null: its run began before sums were recorded
ALTER TABLE documents ADD COLUMN digest BLOB;                   -- null: fetched before digests were recorded
ALTER TABLE documents ADD COLUMN pruned INTEGER NOT NULL DEFAULT 0; -- 1: its body was deleted on purpose
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
