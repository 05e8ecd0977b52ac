-- Migration 3 of crawl.db: what hosts the defs name, how far redirects may lead, the age of each robots.txt,
-- requests that page limits count, and the adaptive delay of a host.

ALTER TABLE hosts ADD COLUMN named INTEGER NOT NULL DEFAULT 0;          -- 1: a locator of the run names it

-- Jobs of earlier versions could be redirected anywhere; 1 lets an unfinished run continue as it began.
ALTER TABLE jobs ADD COLUMN may_leave_host INTEGER NOT NULL DEFAULT 1;  -- 0: redirects stay on named hosts and its own

-- A redirect may have moved a locator's job to another host, which the defs do not name: its URL names its host.
WITH redirected (run, scheme, rest) AS (
    SELECT run, substr(url, 1, instr(url, '://') + 2), substr(url, instr(url, '://') + 3)
    FROM jobs WHERE origin = 'locator' AND target IS NOT NULL
), addressed (run, scheme, authority) AS (
    SELECT run, scheme, substr(rest, 1, instr(rest || '/', '/') - 1) FROM redirected
), located (run, origin) AS (
    SELECT DISTINCT run, scheme || substr(authority, instr(authority, '@') + 1) FROM addressed
)
UPDATE hosts SET named = 1 WHERE id IN (
    SELECT s.host FROM jobs j JOIN sequences s ON s.id = j.sequence WHERE j.origin = 'locator' AND j.target IS NULL
    UNION SELECT h.id FROM located l JOIN hosts h ON h.run = l.run AND h.origin = l.origin
);

ALTER TABLE hosts ADD COLUMN robots_fetched_at REAL;   -- wall clock; null: it could not be read
ALTER TABLE hosts ADD COLUMN robots_agent TEXT;        -- the product token that its crawl_delay applies to
-- Of those read before, at an unknown time: 0. Statuses that only pass with time say nothing about what is allowed.
UPDATE hosts SET robots_fetched_at = 0
WHERE robots_status > 0 AND robots_status NOT IN (408, 425, 429) AND robots_status NOT BETWEEN 500 AND 599;
CREATE INDEX hosts_robots ON hosts(key) WHERE robots_fetched_at IS NOT NULL;
ALTER TABLE metrics ADD COLUMN noindex INTEGER NOT NULL DEFAULT 0;  -- pages that say noindex

ALTER TABLE metrics ADD COLUMN requests INTEGER NOT NULL DEFAULT 0; -- sent for pages
UPDATE metrics SET requests = fetches WHERE grp <> '';

ALTER TABLE hosts ADD COLUMN throttle INTEGER NOT NULL DEFAULT 0;   -- 1: the delay follows the host's latency
ALTER TABLE hosts ADD COLUMN pace REAL NOT NULL DEFAULT 1;          -- that delay, in seconds
ALTER TABLE hosts ADD COLUMN least_pace REAL NOT NULL DEFAULT 0;    -- raised by each burst of 429 or 503, never lowered

CREATE INDEX jobs_failed_of ON jobs(sequence) WHERE state = 'FAILED';
