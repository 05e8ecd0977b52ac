-- what format 30 adds to a database of format 29
ALTER TABLE jobs ADD COLUMN asked_again INTEGER NOT NULL DEFAULT 0;
CREATE TABLE landings (                             -- done pages at URLs that redirects lead to
    run        INTEGER NOT NULL REFERENCES runs(seq),
    key        BLOB NOT NULL,                      -- of their group and document (crawl_engine.model.job.landing_key)
    job        INTEGER NOT NULL REFERENCES jobs(id),
    redirected INTEGER NOT NULL,                   -- 0: the URL is that of the job itself
    kept       INTEGER NOT NULL,                   -- 1: the first of the key, which has the rows; the others are SKIPPED
    PRIMARY KEY (run, key, job)
) WITHOUT ROWID;
CREATE INDEX landings_kept ON landings(run, key) WHERE kept = 1;
CREATE INDEX landings_job ON landings(job);
ALTER TABLE runs ADD COLUMN failed_commands TEXT;
ALTER TABLE runs ADD COLUMN found TEXT;
ALTER TABLE documents ADD COLUMN headers TEXT;
ALTER TABLE documents ADD COLUMN loader TEXT;
ALTER TABLE outputs ADD COLUMN added INTEGER NOT NULL DEFAULT 0;
UPDATE outputs SET added = rows;
