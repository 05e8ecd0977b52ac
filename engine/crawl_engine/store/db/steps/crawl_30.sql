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
ALTER TABLE jobs ADD COLUMN reason_code TEXT;
UPDATE jobs SET reason_code = CASE
    WHEN reason = 'its group is not in the defs' THEN 'group'
    WHEN reason GLOB 'maxPages *' THEN 'limit'
    WHEN reason GLOB 'address *' THEN 'address'
    WHEN reason GLOB 'robots.txt *' THEN 'robots'
    WHEN reason GLOB 'its canonical URL is *' THEN 'canonical'
    WHEN reason GLOB 'HTTP *' OR reason GLOB 'not a page: *' THEN 'no-page' END
WHERE state = 'SKIPPED' OR (state = 'FAILED' AND reason GLOB 'robots.txt *');
CREATE TABLE page_limits (                          -- of the requests for pages; crawl_engine.store.tables.run.page_limits
    run      INTEGER NOT NULL REFERENCES runs(seq),
    code     TEXT NOT NULL,                        -- which limit it is
    name     TEXT NOT NULL,                        -- of what, such as a group; empty: of the run
    most     INTEGER,                              -- null: it was lifted
    reserved INTEGER NOT NULL DEFAULT 0,           -- requests counted for leased jobs, not known to be sent
    PRIMARY KEY (run, code, name)
) WITHOUT ROWID;
INSERT INTO page_limits (run, code, name, most) SELECT seq, 'run', '', max_pages FROM runs WHERE max_pages IS NOT NULL;
INSERT INTO page_limits (run, code, name, most)
SELECT run, 'group', grp, max(max_pages) FROM sequences WHERE max_pages IS NOT NULL GROUP BY run, grp;
ALTER TABLE runs DROP COLUMN max_pages;
ALTER TABLE sequences DROP COLUMN max_pages;
