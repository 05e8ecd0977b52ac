-- Nobody reads it; it had to be computed for each page.

ALTER TABLE documents DROP COLUMN digest;
