-- Never read, but computed for each page.

ALTER TABLE documents DROP COLUMN digest;
