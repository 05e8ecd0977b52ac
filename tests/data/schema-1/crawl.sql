-- crawl.db of schema 1, with a few rows. A test migrates it.

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
    seconds          REAL NOT NULL DEFAULT 0,
    defs_version     INTEGER REFERENCES def_versions(version),
    seeded_version   INTEGER,
    base_url         TEXT,
    paused           TEXT,
    slots            INTEGER NOT NULL DEFAULT 0,
    active_sequences INTEGER NOT NULL DEFAULT 0,
    max_pages        INTEGER,
    takeovers        INTEGER NOT NULL DEFAULT 0,
    rates            TEXT NOT NULL DEFAULT '{"pages_per_s":0.0,"rows_per_s":0.0}',
    reextraction     TEXT,
    reextracted      INTEGER NOT NULL DEFAULT 0,
    relinking        INTEGER NOT NULL DEFAULT 0,
    extract_only     INTEGER NOT NULL DEFAULT 0
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
CREATE TABLE page_defs (
    version   INTEGER NOT NULL REFERENCES def_versions(version),
    grp       TEXT NOT NULL,
    hash      TEXT NOT NULL,
    data_defs TEXT NOT NULL,
    follow    TEXT NOT NULL,
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
    epoch      INTEGER PRIMARY KEY AUTOINCREMENT,
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
    key           TEXT NOT NULL,
    origin        TEXT NOT NULL,
    delay         REAL NOT NULL,
    concurrency   INTEGER NOT NULL,
    crawl_delay   REAL NOT NULL DEFAULT 0,
    next_at       REAL,
    backoff_until REAL,
    strikes       INTEGER NOT NULL DEFAULT 0,
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
    absent     INTEGER NOT NULL DEFAULT 0
        CHECK (absent IN (0, 1, 2)),
    max_pages  INTEGER,
    ready      INTEGER NOT NULL DEFAULT 0,
    delayed    INTEGER NOT NULL DEFAULT 0,
    taken      INTEGER NOT NULL DEFAULT 0,
    done       INTEGER NOT NULL DEFAULT 0,
    failed     INTEGER NOT NULL DEFAULT 0,
    skipped    INTEGER NOT NULL DEFAULT 0,
    incomplete INTEGER NOT NULL DEFAULT 0,
    UNIQUE (run, grp, host, kind)
);
CREATE TABLE locators (
    id      INTEGER PRIMARY KEY,
    run     INTEGER NOT NULL REFERENCES runs(seq),
    grp     TEXT NOT NULL,
    name    TEXT NOT NULL,
    request TEXT NOT NULL,
    UNIQUE (run, grp, name, request)
);
CREATE TABLE jobs (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    run        INTEGER NOT NULL REFERENCES runs(seq),
    sequence   INTEGER NOT NULL REFERENCES sequences(id),
    state      TEXT NOT NULL DEFAULT 'READY'
        CHECK (state IN ('READY','TAKEN','DONE','FAILED','SKIPPED','INCOMPLETE')),
    priority   INTEGER NOT NULL DEFAULT 0,
    not_before REAL,
    lease      INTEGER,
    node       INTEGER,
    attempts   INTEGER NOT NULL DEFAULT 0,
    crashes    INTEGER NOT NULL DEFAULT 0,
    hops       INTEGER NOT NULL DEFAULT 0,
    depth      INTEGER NOT NULL DEFAULT 0,
    origin     TEXT NOT NULL CHECK (origin IN ('locator','link')),
    locator    INTEGER REFERENCES locators(id),
    root       INTEGER,
    document   INTEGER,
    defs       INTEGER,
    page       INTEGER,
    linked     INTEGER,
    url        TEXT NOT NULL,
    target     TEXT,
    reason     TEXT,
    changed_at REAL,
    page_key   BLOB,
    identity   BLOB NOT NULL,
    CHECK ((state = 'TAKEN') = (lease IS NOT NULL)),
    UNIQUE (run, identity)
);
CREATE TABLE documents (
    id           INTEGER PRIMARY KEY,
    run          INTEGER NOT NULL REFERENCES runs(seq),
    key          BLOB NOT NULL,
    url          TEXT NOT NULL,
    status       INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    fetched_at   REAL NOT NULL,
    size         INTEGER NOT NULL,
    digest       BLOB NOT NULL
);
CREATE TABLE document_aliases (
    key      BLOB NOT NULL,
    document INTEGER NOT NULL REFERENCES documents(id),
    PRIMARY KEY (key, document)
) WITHOUT ROWID;
CREATE TABLE rows (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    run      INTEGER NOT NULL REFERENCES runs(seq),
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    data     TEXT NOT NULL
);
CREATE TABLE row_counts (
    run      INTEGER NOT NULL REFERENCES runs(seq),
    data_def TEXT NOT NULL,
    rows     INTEGER NOT NULL DEFAULT 0,
    rejected INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, data_def)
) WITHOUT ROWID;
CREATE TABLE rejections (
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def TEXT NOT NULL,
    records  INTEGER NOT NULL,
    PRIMARY KEY (job, data_def)
) WITHOUT ROWID;
CREATE TABLE metrics (
    run           INTEGER NOT NULL REFERENCES runs(seq),
    grp           TEXT NOT NULL,
    fetches       INTEGER NOT NULL DEFAULT 0,
    fetch_seconds REAL NOT NULL DEFAULT 0,
    bytes         INTEGER NOT NULL DEFAULT 0,
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
    path      TEXT NOT NULL,
    settings  TEXT NOT NULL,
    cursor    INTEGER NOT NULL DEFAULT 0,
    bytes     INTEGER NOT NULL DEFAULT 0,
    rows      INTEGER NOT NULL DEFAULT 0,
    inode     INTEGER,
    dirty     INTEGER NOT NULL DEFAULT 0,
    pending   TEXT,
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
    dependencies      TEXT NOT NULL,
    kept              INTEGER NOT NULL DEFAULT 0,
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
CREATE TABLE events (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    run    INTEGER,
    at     REAL NOT NULL,
    level  TEXT NOT NULL CHECK (level IN ('INFO','WARNING','ERROR')),
    source TEXT NOT NULL,
    kind   TEXT NOT NULL,
    job    INTEGER,
    text   TEXT NOT NULL
);
CREATE TABLE samples (
    run    INTEGER NOT NULL REFERENCES runs(seq),
    at     REAL NOT NULL,
    pages  REAL NOT NULL,
    rows   REAL NOT NULL,
    failed INTEGER NOT NULL,
    queue  INTEGER NOT NULL,
    PRIMARY KEY (run, at)
) WITHOUT ROWID;

INSERT INTO runs VALUES (1, 'a1b2c3', 'READY', 'RUNNING', NULL, 1700000000.0, NULL, NULL, 0.0, 1, NULL, NULL, NULL, 0, 1, NULL, 0, '{"pages_per_s":0.0,"rows_per_s":0.0}', NULL, 0, 0, 0);
INSERT INTO def_versions VALUES (1, 'h', '{}', 1700000000.0);
INSERT INTO data_defs VALUES (1, 'book', 'h');
INSERT INTO hosts VALUES (1, 1, 'a:80', 'http://a', 0.0, 8, 0.0, NULL, NULL, 0, 0, 0, 'OFF', NULL, NULL);
INSERT INTO sequences VALUES (1, 1, 1, 'page', 'books', NULL, 0, 0, NULL, 1, 0, 0, 1, 0, 0, 0);
INSERT INTO jobs VALUES (1, 1, 1, 'READY', 0, NULL, NULL, NULL, 0, 0, 0, 0, 'locator', NULL, NULL, NULL, NULL, NULL, NULL, 'http://a/1', NULL, NULL, NULL, NULL, x'01');
INSERT INTO jobs VALUES (2, 1, 1, 'DONE', 0, NULL, NULL, NULL, 0, 0, 0, 0, 'link', NULL, NULL, 7, 1, NULL, NULL, 'http://a/2', NULL, NULL, NULL, NULL, x'02');
INSERT INTO documents VALUES (7, 1, x'02', 'http://a/2', 200, 'text/html', 1700000001.0, 10, x'00');
INSERT INTO rows VALUES (1, 1, 2, 1, '{"title":"A"}');
INSERT INTO row_counts VALUES (1, 'book', 1, 0);
DELETE FROM sqlite_sequence WHERE name = 'runs';
INSERT INTO sqlite_sequence VALUES ('runs', 1);
DELETE FROM sqlite_sequence WHERE name = 'jobs';
INSERT INTO sqlite_sequence VALUES ('jobs', 2);
DELETE FROM sqlite_sequence WHERE name = 'rows';
INSERT INTO sqlite_sequence VALUES ('rows', 1);

CREATE INDEX sequences_host ON sequences(host);
CREATE INDEX sequences_rung ON sequences(run) WHERE rung_at IS NOT NULL;
CREATE INDEX sequences_waiting ON sequences(run) WHERE rung_at IS NULL AND ready > 0 AND paused = 0;
CREATE INDEX sequences_absent ON sequences(run) WHERE absent > 0;
CREATE INDEX sequences_extract ON sequences(run) WHERE kind = 'extract';
CREATE INDEX jobs_due ON jobs(sequence, priority DESC, id) WHERE state = 'READY' AND not_before IS NULL;
CREATE INDEX jobs_waiting ON jobs(run, not_before) WHERE state = 'READY' AND not_before IS NOT NULL;
CREATE INDEX jobs_taken ON jobs(coalesce(target, url)) WHERE state = 'TAKEN';
CREATE INDEX jobs_incomplete ON jobs(run) WHERE state = 'INCOMPLETE';
CREATE INDEX jobs_suspect ON jobs(sequence, priority DESC, id) WHERE state = 'READY' AND crashes > 0;
CREATE INDEX jobs_failed ON jobs(run, coalesce(changed_at, 0)) WHERE state = 'FAILED';
CREATE INDEX jobs_skipped ON jobs(sequence) WHERE state = 'SKIPPED';
CREATE INDEX jobs_located ON jobs(run, page_key) WHERE page_key IS NOT NULL;
CREATE INDEX documents_key ON documents(key);
CREATE INDEX rows_job ON rows(job);
CREATE INDEX commands_new ON commands(supervisor) WHERE state = 'NEW';
CREATE INDEX events_job ON events(job) WHERE job IS NOT NULL;
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

PRAGMA user_version = 1;
