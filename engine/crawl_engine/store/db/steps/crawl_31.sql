-- what format 31 adds to a database of format 30
ALTER TABLE hosts ADD COLUMN address TEXT;
ALTER TABLE hosts ADD COLUMN pool TEXT;
CREATE INDEX hosts_address ON hosts(run, address) WHERE address IS NOT NULL AND pool IS NULL;
CREATE INDEX hosts_pool ON hosts(run, pool) WHERE pool IS NOT NULL;
