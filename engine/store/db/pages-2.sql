-- Migration 2 of pages.db: bodies may be compressed with a dictionary; each frame names its id.

CREATE TABLE dictionaries (
    id   INTEGER PRIMARY KEY,
    body BLOB NOT NULL
);
