-- crawl.db: the state of all runs. Deadlines are boot-time seconds (runtime.clock), moments wall-clock seconds since 1970.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE runs (
    seq              INTEGER PRIMARY KEY AUTOINCREMENT,
    id               TEXT NOT NULL UNIQUE,
    state            TEXT NOT NULL DEFAULT 'NEW'
        CHECK (state IN ('NEW','SEEDING','READY','DRAINING','DONE','CANCELLED','KILLED','FAILED')),
    stage            TEXT NOT NULL DEFAULT 'INIT'
        CHECK (stage IN ('INIT','CHECK_LOCK','ABORT','START_APPENDER','START_NODES','RUNNING','CRAWL_COMPLETE',
                         'INTERRUPTED','STOPPING_NODES_GRACEFUL','STOPPING_APPENDER_GRACEFUL',
                         'STOPPING_NODES_FORCEFUL','STOPPING_APPENDER_FORCEFUL','RELEASING_LOCK','SHUTDOWN_COMPLETE')),
    reason           TEXT,
    created_at       REAL NOT NULL,
    started_at       REAL,
    ended_at         REAL,
    seconds          REAL NOT NULL DEFAULT 0,      -- total time under a supervisor
    defs_version     INTEGER REFERENCES def_versions(version),
    seeded_version   INTEGER,
    base_url         TEXT,
    paused           TEXT,                         -- reason: 'operator', 'disk', 'operator, disk'; null: not paused
    slots            INTEGER NOT NULL DEFAULT 0,   -- concurrency of all runners together
    active_sequences INTEGER NOT NULL DEFAULT 0,   -- sequences with ready or taken jobs to fetch; a trigger counts them
    max_pages        INTEGER,
    takeovers        INTEGER NOT NULL DEFAULT 0,   -- dead nodes whose jobs were requeued
    rates            TEXT NOT NULL DEFAULT '{"pages_per_s":0.0,"rows_per_s":0.0}',
    reextraction     TEXT,                         -- JSON: progress of the search for stale pages; null: none is in progress
    reextracted      INTEGER NOT NULL DEFAULT 0,   -- pages since the last change of the defs
    relinking        INTEGER NOT NULL DEFAULT 0,   -- 1: links changed; record which pages they still lead to
    extract_only     INTEGER NOT NULL DEFAULT 0    -- 1: fetch nothing, lease only re-extractions
);

CREATE TABLE def_versions (
    version     INTEGER PRIMARY KEY,
    hash        TEXT NOT NULL,
    definitions TEXT NOT NULL,
    accepted_at REAL NOT NULL
);

CREATE TABLE data_defs (
    id      INTEGER PRIMARY KEY,
    name    TEXT NOT NULL,
    hash    TEXT NOT NULL,
    UNIQUE (name, hash)
);

CREATE TABLE page_defs (                           -- the page defs of a group in a version; no row: it lacks the group
    version   INTEGER NOT NULL REFERENCES def_versions(version),
    grp       TEXT NOT NULL,
    hash      TEXT NOT NULL,                       -- of the columns below: pages made with another hash are stale
    data_defs TEXT NOT NULL,                       -- JSON: ordered ids
    follow    TEXT NOT NULL,                       -- hash of the defs besides dataDefs that decide which links are followed
    PRIMARY KEY (version, grp)
) WITHOUT ROWID;

CREATE TABLE supervisors (
    epoch      INTEGER PRIMARY KEY AUTOINCREMENT,
    identity   TEXT NOT NULL,
    run        INTEGER REFERENCES runs(seq),
    started_at REAL NOT NULL,
    ended_at   REAL
);

CREATE TABLE nodes (
    epoch      INTEGER PRIMARY KEY AUTOINCREMENT,  -- global, never reused
    run        INTEGER NOT NULL REFERENCES runs(seq),
    supervisor INTEGER NOT NULL REFERENCES supervisors(epoch),
    number     INTEGER NOT NULL,
    state      TEXT NOT NULL DEFAULT 'STARTING'
        CHECK (state IN ('STARTING','READY','DONE','STANDBY','DRAINING','SHUTDOWN','TERMINATED','DEAD','FAILED')),
    role       TEXT NOT NULL DEFAULT 'INITIAL'
        CHECK (role IN ('INITIAL','RUNNER','BACKUP_RUNNER','DEAD_RUNNER','DEAD_BACKUP_RUNNER')),
    heart      TEXT NOT NULL DEFAULT 'NEWBORN'
        CHECK (heart IN ('NEWBORN','HEALTHY','ARRHYTHMIA','ASYSTOLE','APPARENT_DEATH')),
    identity   TEXT,
    pid        INTEGER,
    replaces   INTEGER,
    started_at REAL NOT NULL,
    ended_at   REAL,
    reason     TEXT,
    beat_age   REAL,
    in_flight  INTEGER NOT NULL DEFAULT 0,
    done       INTEGER NOT NULL DEFAULT 0,
    failed     INTEGER NOT NULL DEFAULT 0,
    rss        INTEGER NOT NULL DEFAULT 0,
    lag        REAL NOT NULL DEFAULT 0,
    now        TEXT NOT NULL DEFAULT '',
    UNIQUE (run, number)
);

CREATE TABLE hosts (
    id            INTEGER PRIMARY KEY,
    run           INTEGER NOT NULL REFERENCES runs(seq),
    key           TEXT NOT NULL,                   -- name:port
    origin        TEXT NOT NULL,
    delay         REAL NOT NULL,
    concurrency   INTEGER NOT NULL,
    crawl_delay   REAL NOT NULL DEFAULT 0,         -- from its robots.txt
    next_at       REAL,
    backoff_until REAL,
    strikes       INTEGER NOT NULL DEFAULT 0,      -- consecutive answers 429 or 503
    throttled     INTEGER NOT NULL DEFAULT 0,
    errors        INTEGER NOT NULL DEFAULT 0,
    robots        TEXT NOT NULL CHECK (robots IN ('OFF','WANTED','KNOWN')),
    robots_status INTEGER,
    robots_text   TEXT,
    UNIQUE (run, key)
);

CREATE TABLE sequences (
    id         INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL REFERENCES runs(seq),
    host       INTEGER NOT NULL REFERENCES hosts(id),
    kind       TEXT NOT NULL CHECK (kind IN ('page','robots','sitemap','extract')),
    grp        TEXT NOT NULL,
    rung_at    REAL,
    paused     INTEGER NOT NULL DEFAULT 0,
    absent     INTEGER NOT NULL DEFAULT 0          -- 1: the defs lack its group; 2: it came back, jobs must be requeued
        CHECK (absent IN (0, 1, 2)),
    max_pages  INTEGER,                            -- of the whole group
    ready      INTEGER NOT NULL DEFAULT 0,         -- due jobs only; those with not_before are 'delayed'
    delayed    INTEGER NOT NULL DEFAULT 0,
    taken      INTEGER NOT NULL DEFAULT 0,
    done       INTEGER NOT NULL DEFAULT 0,
    failed     INTEGER NOT NULL DEFAULT 0,
    skipped    INTEGER NOT NULL DEFAULT 0,
    incomplete INTEGER NOT NULL DEFAULT 0,
    UNIQUE (run, grp, host, kind)
);
CREATE INDEX sequences_host ON sequences(host);
CREATE INDEX sequences_rung ON sequences(run) WHERE rung_at IS NOT NULL;
CREATE INDEX sequences_waiting ON sequences(run) WHERE rung_at IS NULL AND ready > 0 AND paused = 0;
CREATE INDEX sequences_absent ON sequences(run) WHERE absent > 0;
CREATE INDEX sequences_extract ON sequences(run) WHERE kind = 'extract';

CREATE TABLE locators (
    id      INTEGER PRIMARY KEY,
    run     INTEGER NOT NULL REFERENCES runs(seq),
    grp     TEXT NOT NULL,
    name    TEXT NOT NULL,
    request TEXT NOT NULL,                         -- JSON: method, headers, cookies, body, content type
    UNIQUE (run, grp, name, request)
);

CREATE TABLE jobs (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: a node may still hold a deleted job
    run        INTEGER NOT NULL REFERENCES runs(seq),
    sequence   INTEGER NOT NULL REFERENCES sequences(id),
    state      TEXT NOT NULL DEFAULT 'READY'
        CHECK (state IN ('READY','TAKEN','DONE','FAILED','SKIPPED','INCOMPLETE')),
    priority   INTEGER NOT NULL DEFAULT 0,
    not_before REAL,                               -- null: due
    lease      INTEGER,
    node       INTEGER,
    attempts   INTEGER NOT NULL DEFAULT 0,
    crashes    INTEGER NOT NULL DEFAULT 0,
    hops       INTEGER NOT NULL DEFAULT 0,
    depth      INTEGER NOT NULL DEFAULT 0,
    origin     TEXT NOT NULL CHECK (origin IN ('locator','link')),
    locator    INTEGER REFERENCES locators(id),
    root       INTEGER,                            -- the locator's job from which this one descends
    document   INTEGER,
    defs       INTEGER,                            -- the def version its rows were made with
    page       INTEGER,                            -- for a re-extraction: the job of the page
    linked     INTEGER,                            -- the newest def version under which a page links to it
    url        TEXT NOT NULL,
    target     TEXT,                               -- the URL to which redirects led so far
    reason     TEXT,
    changed_at REAL,                               -- last change of state; null: unchanged since it was created
    page_key   BLOB,                               -- for a plain locator: the identity of a link to its page
    identity   BLOB NOT NULL,
    CHECK ((state = 'TAKEN') = (lease IS NOT NULL)),
    UNIQUE (run, identity)
);
CREATE INDEX jobs_due ON jobs(sequence, priority DESC, id) WHERE state = 'READY' AND not_before IS NULL;
CREATE INDEX jobs_waiting ON jobs(run, not_before) WHERE state = 'READY' AND not_before IS NOT NULL;
CREATE INDEX jobs_taken ON jobs(coalesce(target, url)) WHERE state = 'TAKEN';
CREATE INDEX jobs_incomplete ON jobs(run) WHERE state = 'INCOMPLETE';
CREATE INDEX jobs_suspect ON jobs(sequence, priority DESC, id) WHERE state = 'READY' AND crashes > 0;
CREATE INDEX jobs_failed ON jobs(run, coalesce(changed_at, 0)) WHERE state = 'FAILED';
CREATE INDEX jobs_skipped ON jobs(sequence) WHERE state = 'SKIPPED';
CREATE INDEX jobs_located ON jobs(run, page_key) WHERE page_key IS NOT NULL;

CREATE TABLE documents (
    id           INTEGER PRIMARY KEY,              -- id of its page in pages.db
    run          INTEGER NOT NULL REFERENCES runs(seq),
    key          BLOB NOT NULL,                    -- hash of method, URL and body; empty: no longer reused
    url          TEXT NOT NULL,                    -- after redirects
    status       INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    fetched_at   REAL NOT NULL,
    size         INTEGER NOT NULL,
    digest       BLOB NOT NULL                     -- until schema-2.sql
);
CREATE INDEX documents_key ON documents(key);

CREATE TABLE document_aliases (
    key      BLOB NOT NULL,                        -- of a request redirected to the document
    document INTEGER NOT NULL REFERENCES documents(id),
    PRIMARY KEY (key, document)
) WITHOUT ROWID;

CREATE TABLE rows (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,    -- readers continue by id: never reused
    run      INTEGER NOT NULL REFERENCES runs(seq),
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    data     TEXT NOT NULL                         -- a JSON object, fields in the order of the defs
);
CREATE INDEX rows_job ON rows(job);

CREATE TABLE row_counts (
    run      INTEGER NOT NULL REFERENCES runs(seq),
    data_def TEXT NOT NULL,
    rows     INTEGER NOT NULL DEFAULT 0,
    rejected INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, data_def)
) WITHOUT ROWID;

CREATE TABLE rejections (                          -- rejected records by page, so that they can be subtracted again
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def TEXT NOT NULL,
    records  INTEGER NOT NULL,
    PRIMARY KEY (job, data_def)
) WITHOUT ROWID;

CREATE TABLE metrics (
    run           INTEGER NOT NULL REFERENCES runs(seq),
    grp           TEXT NOT NULL,                   -- '' for robots.txt
    fetches       INTEGER NOT NULL DEFAULT 0,      -- complete responses
    fetch_seconds REAL NOT NULL DEFAULT 0,         -- sum over the fetches
    bytes         INTEGER NOT NULL DEFAULT 0,      -- of their bodies, as sent
    retries       INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, grp)
) WITHOUT ROWID;

CREATE TABLE appenders (
    epoch      INTEGER PRIMARY KEY AUTOINCREMENT,
    run        INTEGER NOT NULL REFERENCES runs(seq),
    supervisor INTEGER NOT NULL REFERENCES supervisors(epoch),
    state      TEXT NOT NULL DEFAULT 'STARTING'
        CHECK (state IN ('STARTING','READY','DONE','STANDBY','DRAINING','SHUTDOWN','TERMINATED','DEAD','FAILED')),
    identity   TEXT,
    pid        INTEGER,
    started_at REAL NOT NULL,
    ended_at   REAL,
    beat_age   REAL,
    flush_ms   REAL
);

CREATE TABLE outputs (
    id        INTEGER PRIMARY KEY,
    run       INTEGER NOT NULL REFERENCES runs(seq),
    appender  TEXT NOT NULL,
    type      TEXT NOT NULL,
    data_def  TEXT NOT NULL,
    path      TEXT NOT NULL,                       -- absolute
    settings  TEXT NOT NULL,                       -- JSON: columns, joins, delimiter
    cursor    INTEGER NOT NULL DEFAULT 0,          -- the last row in the file
    bytes     INTEGER NOT NULL DEFAULT 0,          -- durable length of the file
    rows      INTEGER NOT NULL DEFAULT 0,
    inode     INTEGER,
    dirty     INTEGER NOT NULL DEFAULT 0,          -- reasons to rebuild, such as replaced rows at or below the cursor
    pending   TEXT,                                -- JSON: inode, cursor, bytes, rows of a rebuilt file not yet renamed
    UNIQUE (run, appender, data_def)
);

CREATE TABLE checkpoints (
    run               INTEGER NOT NULL REFERENCES runs(seq),
    step_name         TEXT NOT NULL,
    grp               TEXT NOT NULL,
    completed         INTEGER NOT NULL,
    completed_at      REAL,
    validation_status TEXT NOT NULL CHECK (validation_status IN ('valid','provisional','invalid')),
    reason            TEXT,
    content_hash      TEXT NOT NULL,
    dependencies      TEXT NOT NULL,               -- JSON: steps on which it depends; GROUP/STEP in another group
    kept              INTEGER NOT NULL DEFAULT 0,  -- pages done before the content changed that are not processed again
    CHECK ((completed = 1) = (completed_at IS NOT NULL)),
    CHECK (completed = 0 OR validation_status <> 'invalid'),
    CHECK (completed = 1 OR validation_status <> 'valid'),
    PRIMARY KEY (run, step_name, grp)
) WITHOUT ROWID;

CREATE TABLE commands (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    supervisor INTEGER NOT NULL REFERENCES supervisors(epoch),
    name       TEXT NOT NULL,
    arguments  TEXT NOT NULL DEFAULT '{}',
    state      TEXT NOT NULL DEFAULT 'NEW' CHECK (state IN ('NEW','DONE','REFUSED','EXPIRED')),
    answer     TEXT,
    given_at   REAL NOT NULL,
    ended_at   REAL
);
CREATE INDEX commands_new ON commands(supervisor) WHERE state = 'NEW';

CREATE TABLE events (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    run    INTEGER,
    at     REAL NOT NULL,
    level  TEXT NOT NULL CHECK (level IN ('INFO','WARNING','ERROR')),
    source TEXT NOT NULL,                          -- supervisor, appender, n1, …
    kind   TEXT NOT NULL,                          -- run, stage, node, page, row, defs, command, …
    job    INTEGER,
    text   TEXT NOT NULL
);
CREATE INDEX events_job ON events(job) WHERE job IS NOT NULL;

CREATE TABLE samples (
    run    INTEGER NOT NULL REFERENCES runs(seq),
    at     REAL NOT NULL,
    pages  REAL NOT NULL,                          -- per second since the last sample
    rows   REAL NOT NULL,
    failed INTEGER NOT NULL,
    queue  INTEGER NOT NULL,
    PRIMARY KEY (run, at)
) WITHOUT ROWID;

-- Each change of state of a run or node is also an event: the events, replayed, give the tables.

CREATE TRIGGER runs_told AFTER UPDATE OF state ON runs WHEN OLD.state <> NEW.state BEGIN
    INSERT INTO events (run, at, level, source, kind, text)
    VALUES (NEW.seq, (julianday('now') - 2440587.5) * 86400.0, 'INFO', 'supervisor', 'state', 'run ' || NEW.state);
END;

CREATE TRIGGER runs_staged AFTER UPDATE OF stage ON runs WHEN OLD.stage <> NEW.stage BEGIN
    INSERT INTO events (run, at, level, source, kind, text)
    VALUES (NEW.seq, (julianday('now') - 2440587.5) * 86400.0, 'INFO', 'supervisor', 'stage', NEW.stage);
END;

CREATE TRIGGER nodes_born AFTER INSERT ON nodes BEGIN
    INSERT INTO events (run, at, level, source, kind, text)
    VALUES (NEW.run, (julianday('now') - 2440587.5) * 86400.0, 'INFO', 'n' || NEW.number, 'state',
        'n' || NEW.number || ' ' || NEW.state || ' ' || NEW.role);
END;

CREATE TRIGGER nodes_told AFTER UPDATE OF state, role ON nodes WHEN OLD.state <> NEW.state OR OLD.role <> NEW.role BEGIN
    INSERT INTO events (run, at, level, source, kind, text)
    VALUES (NEW.run, (julianday('now') - 2440587.5) * 86400.0, 'INFO', 'n' || NEW.number, 'state',
        'n' || NEW.number || ' ' || NEW.state || ' ' || NEW.role);
END;

-- Counters change in the transaction that changes a job.

CREATE TRIGGER jobs_born AFTER INSERT ON jobs BEGIN
    UPDATE sequences SET
        ready   = ready   + (NEW.state = 'READY' AND NEW.not_before IS NULL),
        delayed = delayed + (NEW.state = 'READY' AND NEW.not_before IS NOT NULL),
        skipped = skipped + (NEW.state = 'SKIPPED')
    WHERE id = NEW.sequence;
END;

CREATE TRIGGER jobs_changed AFTER UPDATE OF state, not_before ON jobs
WHEN OLD.sequence = NEW.sequence
    AND (OLD.state <> NEW.state OR (OLD.not_before IS NULL) <> (NEW.not_before IS NULL))
BEGIN
    UPDATE sequences SET
        ready      = ready      + (NEW.state = 'READY' AND NEW.not_before IS NULL)
                                - (OLD.state = 'READY' AND OLD.not_before IS NULL),
        delayed    = delayed    + (NEW.state = 'READY' AND NEW.not_before IS NOT NULL)
                                - (OLD.state = 'READY' AND OLD.not_before IS NOT NULL),
        taken      = taken      + (NEW.state = 'TAKEN')      - (OLD.state = 'TAKEN'),
        done       = done       + (NEW.state = 'DONE')       - (OLD.state = 'DONE'),
        failed     = failed     + (NEW.state = 'FAILED')     - (OLD.state = 'FAILED'),
        skipped    = skipped    + (NEW.state = 'SKIPPED')    - (OLD.state = 'SKIPPED'),
        incomplete = incomplete + (NEW.state = 'INCOMPLETE') - (OLD.state = 'INCOMPLETE')
    WHERE id = NEW.sequence;
END;

CREATE TRIGGER jobs_left AFTER UPDATE OF sequence ON jobs WHEN OLD.sequence <> NEW.sequence BEGIN
    UPDATE sequences SET
        ready      = ready      - (OLD.state = 'READY' AND OLD.not_before IS NULL),
        delayed    = delayed    - (OLD.state = 'READY' AND OLD.not_before IS NOT NULL),
        taken      = taken      - (OLD.state = 'TAKEN'),
        done       = done       - (OLD.state = 'DONE'),
        failed     = failed     - (OLD.state = 'FAILED'),
        skipped    = skipped    - (OLD.state = 'SKIPPED'),
        incomplete = incomplete - (OLD.state = 'INCOMPLETE')
    WHERE id = OLD.sequence;
    UPDATE sequences SET
        ready      = ready      + (NEW.state = 'READY' AND NEW.not_before IS NULL),
        delayed    = delayed    + (NEW.state = 'READY' AND NEW.not_before IS NOT NULL),
        taken      = taken      + (NEW.state = 'TAKEN'),
        done       = done       + (NEW.state = 'DONE'),
        failed     = failed     + (NEW.state = 'FAILED'),
        skipped    = skipped    + (NEW.state = 'SKIPPED'),
        incomplete = incomplete + (NEW.state = 'INCOMPLETE')
    WHERE id = NEW.sequence;
END;

CREATE TRIGGER jobs_gone AFTER DELETE ON jobs BEGIN
    UPDATE sequences SET
        ready      = ready      - (OLD.state = 'READY' AND OLD.not_before IS NULL),
        delayed    = delayed    - (OLD.state = 'READY' AND OLD.not_before IS NOT NULL),
        taken      = taken      - (OLD.state = 'TAKEN'),
        done       = done       - (OLD.state = 'DONE'),
        failed     = failed     - (OLD.state = 'FAILED'),
        skipped    = skipped    - (OLD.state = 'SKIPPED'),
        incomplete = incomplete - (OLD.state = 'INCOMPLETE')
    WHERE id = OLD.sequence;
END;

CREATE TRIGGER sequences_active AFTER UPDATE OF ready, taken ON sequences
WHEN (OLD.ready + OLD.taken > 0) <> (NEW.ready + NEW.taken > 0) AND NEW.kind <> 'extract'
BEGIN
    UPDATE runs SET active_sequences = active_sequences + (NEW.ready + NEW.taken > 0) - (OLD.ready + OLD.taken > 0)
    WHERE seq = NEW.run;
END;
