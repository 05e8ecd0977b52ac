-- Migration 5 of crawl.db: the answers by which hosts refuse the crawler.

ALTER TABLE hosts ADD COLUMN blocked INTEGER NOT NULL DEFAULT 0;           -- answers that refused the crawler
ALTER TABLE hosts ADD COLUMN answers INTEGER NOT NULL DEFAULT 1;           -- the last 20 as bits, 1: it refused; a 1 before them all
