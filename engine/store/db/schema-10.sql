-- Migration 10 of crawl.db: jobs that log in and that download files; pages that are asked for again.

-- The kinds of a sequence: no other way changes a CHECK without writing the table anew.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''sitemap'',''extract'')', '''sitemap'',''extract'',''login'',''file'')')
    WHERE type = 'table' AND name = 'sequences';
PRAGMA writable_schema = RESET;

ALTER TABLE jobs ADD COLUMN fresh_since REAL;       -- a document asked for since then replaces the fetch; null: by its group

ALTER TABLE documents ADD COLUMN checked_at REAL;   -- when the site last said that it is unchanged; null: never
ALTER TABLE documents ADD COLUMN checked_run INTEGER; -- the run to which it said so
ALTER TABLE documents ADD COLUMN recrawl_after REAL; -- seconds after which an adaptive group asks for it again; null: in none
