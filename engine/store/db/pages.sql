-- pages.db: the bodies of documents. Written before crawl.db refers to them; what nothing refers to is swept.

CREATE TABLE pages (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    headers TEXT NOT NULL,                         -- JSON: pairs of name and value
    body    BLOB NOT NULL                          -- decoded from its content encoding, zstd-compressed
);
