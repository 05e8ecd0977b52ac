-- what format 30 adds to a database of format 29
ALTER TABLE runs ADD COLUMN failed_commands TEXT;
