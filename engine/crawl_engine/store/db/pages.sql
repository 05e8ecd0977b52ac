-- pages.db: the bodies of documents. Written before crawl.db refers to them; bodies without a document are deleted.

CREATE TABLE pages (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    headers TEXT NOT NULL,                         -- JSON: pairs of name and value; empty: deleted, others use its body
    source  INTEGER,                               -- the page that has the same body; null: this one has it
    body    BLOB NOT NULL                          -- without its content encoding, compressed with zstd
);
CREATE INDEX pages_source ON pages(source) WHERE source IS NOT NULL;

CREATE TABLE dictionaries (                        -- of zstd; each frame of a body names its id
    id   INTEGER PRIMARY KEY,
    body BLOB NOT NULL
);
