-- Migration 2 of crawl.db: drops documents.digest, which was computed for each page and never read.

ALTER TABLE documents DROP COLUMN digest;
