-- crawl.db from format 28 to 29: what `schema.sql` and `triggers.sql` have now and had not then.
CREATE INDEX nodes_living ON nodes(run) WHERE ended_at IS NULL;
ALTER TABLE hosts ADD COLUMN lent_until REAL;
