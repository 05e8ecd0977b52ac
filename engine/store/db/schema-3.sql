-- Migration 3 of crawl.db: which hosts the defs name, and which jobs may be redirected to any host.

ALTER TABLE hosts ADD COLUMN named INTEGER NOT NULL DEFAULT 0;          -- 1: a locator of the run names it

-- Jobs of earlier versions could be redirected anywhere; 1 lets an unfinished run continue as it began.
ALTER TABLE jobs ADD COLUMN may_leave_host INTEGER NOT NULL DEFAULT 1;  -- 0: redirects stay on named hosts and its own

-- A redirect moves a locator's job to the host it leads to, which the defs do not name.
UPDATE hosts SET named = 1 WHERE id IN (
    SELECT s.host FROM jobs j JOIN sequences s ON s.id = j.sequence WHERE j.origin = 'locator' AND j.target IS NULL
);
