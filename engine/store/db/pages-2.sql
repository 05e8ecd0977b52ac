-- Bodies may be packed with a dictionary. Its number stands in their frames.

CREATE TABLE dictionaries (
    id   INTEGER PRIMARY KEY,
    body BLOB NOT NULL
);
