-- Migration 11 of crawl.db: logins of hosts, and the cookies that nodes share.

ALTER TABLE hosts ADD COLUMN login TEXT NOT NULL DEFAULT 'OFF' CHECK (login IN ('OFF','WANTED','DONE','FAILED'));
ALTER TABLE hosts ADD COLUMN login_number INTEGER NOT NULL DEFAULT 0; -- of the last login: jobs and losses name it
ALTER TABLE hosts ADD COLUMN login_failure TEXT;                    -- why it FAILED
ALTER TABLE hosts ADD COLUMN lost_in_row INTEGER NOT NULL DEFAULT 0;  -- pages in a row that failed although it was new
-- from here on, hosts.paused is 2 where a lost login has paused the host

CREATE TABLE session_losses (                       -- pages that were answered as if nobody had logged in
    job   INTEGER PRIMARY KEY REFERENCES jobs(id),
    login INTEGER NOT NULL                          -- the number of the login with which they were sent
);

CREATE TABLE cookie_jars (
    run        INTEGER NOT NULL REFERENCES runs(seq),
    site       TEXT NOT NULL,                       -- registrable domain
    version    INTEGER NOT NULL,                    -- counts the changes of all jars of the run
    changed_at REAL NOT NULL,
    node       INTEGER NOT NULL,                    -- epoch of the node that wrote it
    jar        BLOB NOT NULL,                       -- JSON
    PRIMARY KEY (run, site)
) WITHOUT ROWID;
CREATE INDEX cookie_jars_version ON cookie_jars(run, version);
