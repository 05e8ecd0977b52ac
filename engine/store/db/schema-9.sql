-- Migration 9 of crawl.db: what the links to pages send and carry.

ALTER TABLE jobs ADD COLUMN link_request TEXT;      -- JSON: what it sends besides its URL (engine.model.link); null: nothing
ALTER TABLE jobs ADD COLUMN carried TEXT;           -- JSON: values of the page that leads to it; null: none
