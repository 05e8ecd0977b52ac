-- Bodies may be compressed with a dictionary. Each frame names the id of its dictionary.

CREATE TABLE dictionaries (
    id   INTEGER PRIMARY KEY,
    body BLOB NOT NULL
);
