-- crawl.db from format 28 to 29: what `schema.sql` and `triggers.sql` have now and had not then.
CREATE INDEX nodes_living ON nodes(run) WHERE ended_at IS NULL;
ALTER TABLE hosts ADD COLUMN lent_until REAL;
ALTER TABLE host_speeds ADD COLUMN state TEXT;
ALTER TABLE host_speeds ADD COLUMN pages_per_s REAL NOT NULL DEFAULT 0;
CREATE INDEX events_trouble ON events(run, id) WHERE level <> 'INFO';
