-- Migration 6 of crawl.db: requests sent for pages, which page limits count; the adaptive delay of a host.

ALTER TABLE metrics ADD COLUMN requests INTEGER NOT NULL DEFAULT 0;
UPDATE metrics SET requests = fetches WHERE grp <> '';

ALTER TABLE hosts ADD COLUMN throttle INTEGER NOT NULL DEFAULT 0;   -- 1: the delay follows the host's latency
ALTER TABLE hosts ADD COLUMN pace REAL NOT NULL DEFAULT 1;          -- that delay, in seconds
ALTER TABLE hosts ADD COLUMN least_pace REAL NOT NULL DEFAULT 0;    -- raised by each burst of 429 or 503, never lowered
