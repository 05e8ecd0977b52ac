-- what format 31 adds to a database of format 30
ALTER TABLE hosts ADD COLUMN address TEXT;
ALTER TABLE hosts ADD COLUMN pool TEXT;
CREATE INDEX hosts_address ON hosts(run, address) WHERE address IS NOT NULL AND pool IS NULL;
CREATE INDEX hosts_pool ON hosts(run, pool) WHERE pool IS NOT NULL;
CREATE TABLE counters (                            -- of what happens rarely; they only rise
    run   INTEGER NOT NULL REFERENCES runs(seq),
    name  TEXT NOT NULL,
    scope TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (run, name, scope)
) WITHOUT ROWID;
