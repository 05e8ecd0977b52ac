-- pages.db of schema 2, with a few rows. A test migrates it.

CREATE TABLE pages (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    headers TEXT NOT NULL,
    body    BLOB NOT NULL
);
CREATE TABLE dictionaries (
    id   INTEGER PRIMARY KEY,
    body BLOB NOT NULL
);

INSERT INTO pages VALUES (7, '[]', x'28b52ffd200a5100003c703e74776f3c2f703e');
DELETE FROM sqlite_sequence WHERE name = 'pages';
INSERT INTO sqlite_sequence VALUES ('pages', 7);


PRAGMA user_version = 2;
