-- Migration 5 of crawl.db: the age of each robots.txt and the agent it was read for; pages that say noindex.

ALTER TABLE hosts ADD COLUMN robots_fetched_at REAL;   -- wall clock; null: it could not be read, or its age is unknown
ALTER TABLE hosts ADD COLUMN robots_agent TEXT;        -- the product token that its crawl_delay applies to
CREATE INDEX hosts_robots ON hosts(key) WHERE robots_fetched_at IS NOT NULL;
ALTER TABLE metrics ADD COLUMN noindex INTEGER NOT NULL DEFAULT 0;  -- pages that say noindex
