-- crawl.db from format 28 to 29: what `schema.sql` and `triggers.sql` have now and had not then.
CREATE INDEX nodes_living ON nodes(run) WHERE ended_at IS NULL;
ALTER TABLE hosts ADD COLUMN lent_until REAL;
ALTER TABLE host_speeds ADD COLUMN state TEXT;
ALTER TABLE host_speeds ADD COLUMN pages_per_s REAL NOT NULL DEFAULT 0;
ALTER TABLE host_speeds ADD COLUMN silent_since REAL;
CREATE INDEX events_trouble ON events(run, id) WHERE level <> 'INFO';
CREATE TABLE host_health (
    host     INTEGER NOT NULL REFERENCES hosts(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    field    TEXT NOT NULL,
    pages    INTEGER NOT NULL,
    records  INTEGER NOT NULL,
    rejected INTEGER NOT NULL,
    PRIMARY KEY (host, data_def, field)
) WITHOUT ROWID;
CREATE INDEX host_health_rejected ON host_health(host) WHERE rejected > 0;
INSERT INTO host_health (host, data_def, field, pages, records, rejected)
SELECT s.host, p.data_def, '', count(*), sum(p.records), sum(p.rejected)
FROM page_health p JOIN jobs j ON j.id = p.job JOIN sequences s ON s.id = j.sequence GROUP BY s.host, p.data_def;
INSERT INTO host_health (host, data_def, field, pages, records, rejected)
SELECT s.host, p.data_def, m.key, 0, sum(m.value), 0
FROM page_health p JOIN jobs j ON j.id = p.job JOIN sequences s ON s.id = j.sequence, json_each(p.missing) m
WHERE p.missing IS NOT NULL GROUP BY s.host, p.data_def, m.key;
ALTER TABLE hosts DROP COLUMN records;
ALTER TABLE hosts DROP COLUMN records_rejected;
ALTER TABLE rows ADD COLUMN key BLOB;
CREATE UNIQUE INDEX rows_key ON rows(run, key) WHERE key IS NOT NULL;
ALTER TABLE row_counts ADD COLUMN duplicates INTEGER NOT NULL DEFAULT 0;
ALTER TABLE held_rows ADD COLUMN key BLOB;
CREATE TABLE double_rows (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    run      INTEGER NOT NULL REFERENCES runs(seq),
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    key      BLOB NOT NULL,
    data     TEXT NOT NULL,
    digest   BLOB
);
CREATE INDEX double_rows_job ON double_rows(job);
CREATE INDEX double_rows_key ON double_rows(run, key);
ALTER TABLE commands ADD COLUMN given_by TEXT;
ALTER TABLE metrics ADD COLUMN plain INTEGER NOT NULL DEFAULT 0;
ALTER TABLE metrics ADD COLUMN rendered INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN browsers TEXT;
