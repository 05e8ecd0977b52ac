-- Migration 7 of crawl.db.

-- Rows that later jobs on a document may copy (`persist`), and pages whose bodies are deleted at the end of their run.

CREATE TABLE row_sources (
    document INTEGER NOT NULL,
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    job      INTEGER NOT NULL REFERENCES jobs(id),  -- made its rows of the document without a rejected record
    PRIMARY KEY (document, data_def)
) WITHOUT ROWID;

CREATE TABLE document_links (                       -- of pages whose rows may be copied: followed without reading the page
    document INTEGER NOT NULL,
    context  BLOB NOT NULL,                         -- hash of what else decides which links a page has: group, defs, settings
    links    BLOB NOT NULL,                         -- JSON compressed with zstd; empty: none
    PRIMARY KEY (document, context)
) WITHOUT ROWID;

CREATE TABLE temporary_documents (                  -- fetched for groups that keep no documents: deleted when their run ends
    run      INTEGER NOT NULL REFERENCES runs(seq),
    document INTEGER NOT NULL,
    grp      TEXT NOT NULL,
    PRIMARY KEY (run, document)
) WITHOUT ROWID;

ALTER TABLE documents ADD COLUMN pruned INTEGER NOT NULL DEFAULT 0; -- 1: its body was deleted, and it is not reused
