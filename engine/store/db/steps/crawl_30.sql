-- what format 30 adds to a database of format 29
ALTER TABLE jobs ADD COLUMN asked_again INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN failed_commands TEXT;
ALTER TABLE documents ADD COLUMN headers TEXT;
ALTER TABLE documents ADD COLUMN loader TEXT;
ALTER TABLE outputs ADD COLUMN added INTEGER NOT NULL DEFAULT 0;
UPDATE outputs SET added = rows;
