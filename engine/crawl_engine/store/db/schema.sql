-- crawl.db: the state of all runs. Deadlines are boot-time seconds (runtime.clock), moments wall-clock seconds since 1970.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('identity', lower(hex(randomblob(16)))); -- of this database and its copies

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
    takeovers        INTEGER NOT NULL DEFAULT 0,   -- dead nodes whose jobs were requeued
    rates            TEXT NOT NULL DEFAULT '{"pages_per_s":0.0,"rows_per_s":0.0,"queue_per_s":0.0}', -- JSON: with hosts and estimate, as the supervisor judged them last
    reextraction     TEXT,                         -- JSON: progress of the search for stale pages; null: none is in progress
    reextracted      INTEGER NOT NULL DEFAULT 0,   -- pages since the last change of the defs
    relinking        INTEGER NOT NULL DEFAULT 0,   -- 1: links changed; record which pages they still lead to
    extract_only     INTEGER NOT NULL DEFAULT 0,   -- 1: fetch nothing, lease only re-extractions
    arguments        TEXT NOT NULL DEFAULT '{}',   -- JSON: the values of -a by name
    seeding          TEXT,                         -- JSON: how far a list of seeds is read; null: no list is read now
    empty_seeds      TEXT,                         -- JSON: by group, the lists of URLs that were empty
    baseline         TEXT,                         -- JSON: what it gave, once it is DONE, for comparison with later runs
    drops            TEXT,                         -- JSON: what a dataDef gave much less of during the run
    missed           TEXT,                         -- JSON: what was expected of its rows and not met, with the dataDef; null: not judged
    alarms           TEXT,                         -- JSON: what is wrong, as the supervisor judged it last
    acknowledged     TEXT,                         -- JSON: the keys of alarms that an operator acknowledged
    exit_code        INTEGER,                      -- of `run`, on each machine; null: it has not ended
    failed_commands  TEXT,                         -- JSON: by setting, why a command of the user failed
    found            TEXT                          -- JSON: warnings of its seeds, and those that its end found
);

CREATE TABLE deleted_runs (                         -- a run leaves `runs` first, then its rows go in batches
    run        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    created_at REAL NOT NULL,
    deleted_at REAL NOT NULL,
    complete   INTEGER NOT NULL DEFAULT 0          -- 1: nothing of it is left
);
CREATE INDEX deleted_runs_open ON deleted_runs(run) WHERE complete = 0;

CREATE TABLE seen_scopes (                          -- the keys by which files with only new rows compared rows
    id       INTEGER PRIMARY KEY,
    data_def TEXT NOT NULL,
    fields   TEXT NOT NULL,                        -- JSON: the key; empty: the whole row
    UNIQUE (data_def, fields)
);

CREATE TABLE seen_rows (                            -- what deleted runs had: only new rows are still told apart
    scope  INTEGER NOT NULL REFERENCES seen_scopes(id),
    digest BLOB NOT NULL,                          -- of the key
    run    INTEGER NOT NULL,                       -- the first deleted run that had the row
    PRIMARY KEY (scope, digest)
) WITHOUT ROWID;

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

CREATE TABLE supervisors (                          -- one for each start of a machine
    epoch      INTEGER PRIMARY KEY AUTOINCREMENT,  -- the number of the machine: the lowest one leads
    identity   TEXT NOT NULL,
    run        INTEGER REFERENCES runs(seq),       -- null: it waits for a run
    name       TEXT NOT NULL DEFAULT '',
    program    TEXT NOT NULL DEFAULT '',           -- its version
    role       TEXT NOT NULL DEFAULT 'LEADER' CHECK (role IN ('INITIAL','LEADER','STANDBY','LEAVING')),
    beats      INTEGER NOT NULL DEFAULT 0,         -- raised each second by machines that share a database
    beat_at    REAL,
    started_at REAL NOT NULL,
    ended_at   REAL
);

CREATE TABLE leader (                               -- one row: which of the machines leads
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    epoch INTEGER,                                 -- of `supervisors`; null: none
    fence INTEGER NOT NULL                         -- raised each time that a machine takes the lead
);
INSERT INTO leader (id, fence) VALUES (1, 0);

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
    now        TEXT NOT NULL DEFAULT '',           -- the URL of its oldest request in flight
    now_age    REAL NOT NULL DEFAULT 0,            -- seconds since that request was sent
    now_limit  REAL NOT NULL DEFAULT 0,            -- seconds that it may take; 0: no limit
    browsers   TEXT,                               -- JSON: runtime.beat_file.NodeBrowsers; null: it has started none
    UNIQUE (run, number)
);
CREATE INDEX nodes_living ON nodes(run) WHERE ended_at IS NULL;

CREATE TABLE hosts (
    id                   INTEGER PRIMARY KEY,
    run                  INTEGER NOT NULL REFERENCES runs(seq),
    key                  TEXT NOT NULL,            -- name:port
    origin               TEXT NOT NULL,
    delay                REAL NOT NULL,
    delay_max            REAL NOT NULL DEFAULT 0,  -- each delay is drawn up to this; 0: it is the same
    concurrency          INTEGER NOT NULL,
    crawl_delay          REAL NOT NULL DEFAULT 0,  -- from its robots.txt
    next_at              REAL,
    machine              INTEGER,                  -- epoch of the supervisor that alone asks it now, if several may
    backoff_until        REAL,
    strikes              INTEGER NOT NULL DEFAULT 0, -- consecutive answers 429 or 503
    rest_reason          TEXT,                     -- its answer when its last rest began; null: it has served a page since
    throttled            INTEGER NOT NULL DEFAULT 0,
    errors               INTEGER NOT NULL DEFAULT 0,
    robots               TEXT NOT NULL CHECK (robots IN ('OFF','WANTED','KNOWN')),
    robots_status        INTEGER,
    robots_text          TEXT,
    named                INTEGER NOT NULL DEFAULT 0, -- 1: a locator of the run names it
    robots_fetched_at    REAL,                     -- wall clock; null: it could not be read
    robots_agent         TEXT,                     -- the product token that its crawl_delay applies to
    content_signal       TEXT,                     -- JSON: what its robots.txt says of the use of pages; null: nothing
    throttle             INTEGER NOT NULL DEFAULT 0, -- 1: the delay follows the host's latency
    pace                 REAL NOT NULL DEFAULT 1,  -- that delay, in seconds
    least_pace           REAL NOT NULL DEFAULT 0,  -- raised by each burst of 429 or 503, never lowered
    gone                 INTEGER NOT NULL DEFAULT 0, -- requests answered with 404 or 410
    blocked              INTEGER NOT NULL DEFAULT 0, -- answers that refused the crawler
    answers              INTEGER NOT NULL DEFAULT 1, -- the last 20 as bits, 1: it refused; a 1 before them all
    operator_delay       REAL,                     -- set at run time; null: that of the defs applies
    operator_concurrency INTEGER,
    paused               INTEGER NOT NULL DEFAULT 0, -- 1: an operator paused it; 2: a lost login did
    login                TEXT NOT NULL DEFAULT 'OFF' CHECK (login IN ('OFF','WANTED','DONE','FAILED')),
    login_number         INTEGER NOT NULL DEFAULT 0, -- of the last login: jobs and losses name it
    login_failure        TEXT,                     -- why it FAILED
    lost_in_row          INTEGER NOT NULL DEFAULT 0, -- pages in a row that failed although it was new
    lent_until           REAL,                     -- how long its machine keeps it; null: while its number is that machine's
    address              TEXT,                     -- where it is; null: unknown, as behind a proxy
    pool                 TEXT,                     -- the pattern whose hosts have one limit together, which the first has
    UNIQUE (run, key)
);
CREATE INDEX hosts_address ON hosts(run, address) WHERE address IS NOT NULL AND pool IS NULL;
CREATE INDEX hosts_pool ON hosts(run, pool) WHERE pool IS NOT NULL;
CREATE INDEX hosts_robots ON hosts(key) WHERE robots_fetched_at IS NOT NULL;

CREATE TABLE sequences (
    id         INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL REFERENCES runs(seq),
    host       INTEGER NOT NULL REFERENCES hosts(id),
    kind       TEXT NOT NULL CHECK (kind IN ('page','robots','sitemap','extract','login','file')),
    grp        TEXT NOT NULL,
    rung_at    REAL,
    paused     INTEGER NOT NULL DEFAULT 0,
    absent     INTEGER NOT NULL DEFAULT 0          -- 1: the defs lack its group; 2: it came back, jobs must be requeued
        CHECK (absent IN (0, 1, 2)),
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
CREATE INDEX sequences_rung ON sequences(run, rung_at) WHERE rung_at IS NOT NULL;
CREATE INDEX sequences_waiting ON sequences(run) WHERE rung_at IS NULL AND ready > 0 AND paused = 0;
CREATE INDEX sequences_absent ON sequences(run) WHERE absent > 0;
CREATE INDEX sequences_extract ON sequences(run) WHERE kind = 'extract';
CREATE INDEX sequences_stopped ON sequences(run) WHERE paused = 2;

CREATE TABLE page_limits (                          -- of the requests for pages; crawl_engine.store.tables.run.page_limits
    run      INTEGER NOT NULL REFERENCES runs(seq),
    code     TEXT NOT NULL,                        -- which limit it is
    name     TEXT NOT NULL,                        -- of what, such as a group; empty: of the run
    most     INTEGER,                              -- null: it was lifted
    reserved INTEGER NOT NULL DEFAULT 0,           -- requests counted for leased jobs, not known to be sent
    PRIMARY KEY (run, code, name)
) WITHOUT ROWID;

CREATE TABLE page_repeats (                         -- streaks of pages with the same text and fields
    sequence        INTEGER PRIMARY KEY REFERENCES sequences(id),
    digest          INTEGER NOT NULL,              -- of the text and fields of the last page
    pages           INTEGER NOT NULL,              -- length of the current streak
    pattern         TEXT NOT NULL,                 -- of their URLs
    longest         INTEGER NOT NULL,              -- length of the longest streak worth a warning; 0: none
    longest_pattern TEXT NOT NULL,
    skipped         INTEGER NOT NULL               -- pages beyond max_repeats
);
CREATE INDEX page_repeats_found ON page_repeats(sequence) WHERE longest > 0;

CREATE TABLE locators (
    id      INTEGER PRIMARY KEY,
    run     INTEGER NOT NULL REFERENCES runs(seq),
    grp     TEXT NOT NULL,
    name    TEXT NOT NULL,
    request TEXT NOT NULL,                         -- JSON: method, headers, cookies, body, content type
    UNIQUE (run, grp, name, request)
);

CREATE TABLE jobs (
    id             INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused: a node may still hold a deleted job
    run            INTEGER NOT NULL REFERENCES runs(seq),
    sequence       INTEGER NOT NULL REFERENCES sequences(id),
    state          TEXT NOT NULL DEFAULT 'READY'
        CHECK (state IN ('READY','TAKEN','DONE','FAILED','SKIPPED','INCOMPLETE')),
    priority       INTEGER NOT NULL DEFAULT 0,
    not_before     REAL,                           -- null: due
    lease          INTEGER,
    node           INTEGER,
    attempts       INTEGER NOT NULL DEFAULT 0,
    crashes        INTEGER NOT NULL DEFAULT 0,
    hops           INTEGER NOT NULL DEFAULT 0,
    depth          INTEGER NOT NULL DEFAULT 0,
    origin         TEXT NOT NULL CHECK (origin IN ('locator','link')),
    locator        INTEGER REFERENCES locators(id),
    root           INTEGER,                        -- the locator's job from which this one descends
    document       INTEGER,
    defs           INTEGER,                        -- the def version its rows were made with
    page           INTEGER,                        -- for a re-extraction: the job of the page
    linked         INTEGER,                        -- the newest def version under which a page links to it
    url            TEXT NOT NULL,
    target         TEXT,                           -- the URL to which redirects led so far
    reason         TEXT,
    changed_at     REAL,                           -- last change of state; null: unchanged since it was created
    page_key       BLOB,                           -- for a plain locator: the identity of a link to its page
    identity       BLOB NOT NULL,
    may_leave_host INTEGER NOT NULL DEFAULT 1,     -- 0: redirects stay on named hosts and its own
    parent         INTEGER,                        -- the job on whose page its link was found first
    link_request   TEXT,                           -- JSON: what it sends besides its URL (crawl_engine.model.link); null: nothing
    carried        TEXT,                           -- JSON: values of the page that leads to it; null: none
    fresh_since    REAL,                           -- a document asked for since then replaces the fetch; null: by its group
    asked_again    INTEGER NOT NULL DEFAULT 0,     -- 1: its page was empty once, and was asked for again
    reason_code    TEXT,                           -- crawl_engine.model.job.ReasonCode; null: nothing asks for the reason
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
CREATE INDEX jobs_children ON jobs(parent) WHERE parent IS NOT NULL;
CREATE INDEX jobs_failed_of ON jobs(sequence) WHERE state = 'FAILED';

CREATE TABLE landings (                             -- done pages at URLs that redirects lead to
    run        INTEGER NOT NULL REFERENCES runs(seq),
    key        BLOB NOT NULL,                      -- of their group and document (crawl_engine.model.job.landing_key)
    job        INTEGER NOT NULL REFERENCES jobs(id),
    redirected INTEGER NOT NULL,                   -- 0: the URL is that of the job itself
    kept       INTEGER NOT NULL,                   -- 1: the first of the key, which has the rows; the others are SKIPPED
    PRIMARY KEY (run, key, job)
) WITHOUT ROWID;
CREATE INDEX landings_kept ON landings(run, key) WHERE kept = 1;
CREATE INDEX landings_job ON landings(job);

CREATE TABLE documents (
    id            INTEGER PRIMARY KEY,             -- id of its page in pages.db
    run           INTEGER NOT NULL REFERENCES runs(seq),
    key           BLOB NOT NULL,                   -- hash of method, URL and body; empty: no longer reused
    url           TEXT NOT NULL,                   -- after redirects
    status        INTEGER NOT NULL,
    content_type  TEXT NOT NULL,
    fetched_at    REAL NOT NULL,
    size          INTEGER NOT NULL,
    pruned        INTEGER NOT NULL DEFAULT 0,      -- 1: its body was deleted, and it is not reused
    digest        BLOB NOT NULL,                   -- crawl_engine.model.content_digest
    checked_at    REAL,                            -- when the site last said that it is unchanged; null: never
    checked_run   INTEGER,                         -- the run to which it said so
    recrawl_after REAL,                            -- seconds after which an adaptive group asks for it again; null: in none
    headers       TEXT,                            -- JSON: those of its page as a later 304 changed them; null: as they came
    loader        TEXT                             -- hash of the browser's rule or the plugin that loaded it; empty: a plain request; null: unknown
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
    key      BLOB,                                 -- of a dataDef with `unique`: crawl_engine.model.content_digest; null: of none
    data     TEXT NOT NULL,                        -- a JSON object, fields in the order of the defs
    digest   BLOB                                  -- crawl_engine.model.content_digest
);
CREATE INDEX rows_job ON rows(job);
CREATE UNIQUE INDEX rows_key ON rows(run, key) WHERE key IS NOT NULL;

CREATE TABLE double_rows (                          -- rows whose key another row of the run has: they are not written
    id       INTEGER PRIMARY KEY AUTOINCREMENT,    -- the oldest takes the place of a row that is deleted
    run      INTEGER NOT NULL REFERENCES runs(seq),
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    key      BLOB NOT NULL,
    data     TEXT NOT NULL,                        -- as in `rows`
    digest   BLOB
);
CREATE INDEX double_rows_job ON double_rows(job);
CREATE INDEX double_rows_key ON double_rows(run, key);

CREATE TABLE row_counts (
    run      INTEGER NOT NULL REFERENCES runs(seq),
    data_def TEXT NOT NULL,
    rows     INTEGER NOT NULL DEFAULT 0,
    rejected INTEGER NOT NULL DEFAULT 0,
    waiting  INTEGER NOT NULL DEFAULT 0,           -- held rows
    duplicates INTEGER NOT NULL DEFAULT 0,         -- double rows
    PRIMARY KEY (run, data_def)
) WITHOUT ROWID;

CREATE TABLE rejections (                          -- rejected records by page, so that they can be subtracted again
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def TEXT NOT NULL,
    records  INTEGER NOT NULL,
    PRIMARY KEY (job, data_def)
) WITHOUT ROWID;

CREATE TABLE counters (                            -- of what happens rarely; they only rise
    run   INTEGER NOT NULL REFERENCES runs(seq),
    name  TEXT NOT NULL,
    scope TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (run, name, scope)
) WITHOUT ROWID;

CREATE TABLE metrics (
    run           INTEGER NOT NULL REFERENCES runs(seq),
    grp           TEXT NOT NULL,                   -- '' for robots.txt
    fetches       INTEGER NOT NULL DEFAULT 0,      -- complete responses
    fetch_seconds REAL NOT NULL DEFAULT 0,         -- sum over the fetches
    bytes         INTEGER NOT NULL DEFAULT 0,      -- of their bodies, as sent
    retries       INTEGER NOT NULL DEFAULT 0,
    noindex       INTEGER NOT NULL DEFAULT 0,      -- pages that say noindex
    requests      INTEGER NOT NULL DEFAULT 0,      -- sent for pages
    plain         INTEGER NOT NULL DEFAULT 0,      -- pages of a group with a browser that were got without it
    rendered      INTEGER NOT NULL DEFAULT 0,      -- pages that a browser loaded
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
    id       INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL REFERENCES runs(seq),
    appender TEXT NOT NULL,
    type     TEXT NOT NULL,
    data_def TEXT NOT NULL,
    path     TEXT NOT NULL,                        -- absolute
    settings TEXT NOT NULL,                        -- JSON: columns, joins, delimiter
    cursor   INTEGER NOT NULL DEFAULT 0,           -- the last row in the file
    bytes    INTEGER NOT NULL DEFAULT 0,           -- durable length of the file
    rows     INTEGER NOT NULL DEFAULT 0,
    inode    INTEGER,
    dirty    INTEGER NOT NULL DEFAULT 0,           -- reasons to rebuild, such as replaced rows at or below the cursor
    pending  TEXT,                                 -- JSON: inode, cursor, bytes, rows of a rebuilt file not yet renamed
    delivers INTEGER NOT NULL DEFAULT 0,           -- 1: it has no file, and a row in deliveries
    error    TEXT,                                 -- why it cannot be written now
    added    INTEGER NOT NULL DEFAULT 0,           -- rows that it got; unlike `rows`, it never falls
    UNIQUE (run, appender, data_def)
);

CREATE TABLE checkpoints (
    run               INTEGER NOT NULL REFERENCES runs(seq),
    grp               TEXT NOT NULL,
    task              TEXT NOT NULL DEFAULT '',        -- empty: a step that serves all tasks of the group
    step_name         TEXT NOT NULL,
    position          INTEGER NOT NULL DEFAULT 0,      -- in the chain: the main line, then side branches
    completed         INTEGER NOT NULL,
    completed_at      REAL,
    validation_status TEXT NOT NULL CHECK (validation_status IN ('valid','provisional','invalid')),
    reason            TEXT,
    content_hash      TEXT NOT NULL,
    dependencies      TEXT NOT NULL,                   -- JSON: steps of the task or group; GROUP/STEP in another group
    kept              INTEGER NOT NULL DEFAULT 0,      -- pages done before the content changed that are not processed again
    CHECK ((completed = 1) = (completed_at IS NOT NULL)),
    CHECK (completed = 0 OR validation_status <> 'invalid'),
    CHECK (completed = 1 OR validation_status <> 'valid'),
    PRIMARY KEY (run, grp, task, step_name)
) WITHOUT ROWID;

CREATE TABLE commands (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    supervisor INTEGER NOT NULL REFERENCES supervisors(epoch),
    name       TEXT NOT NULL,
    arguments  TEXT NOT NULL DEFAULT '{}',
    state      TEXT NOT NULL DEFAULT 'NEW' CHECK (state IN ('NEW','DONE','REFUSED','EXPIRED')),
    answer     TEXT,
    given_at   REAL NOT NULL,
    ended_at   REAL,
    given_by   TEXT                                -- who gave it over HTTP; null: a local command or console
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
    text   TEXT NOT NULL                           -- if it ends with two spaces, the URL of the job follows
);
CREATE INDEX events_job ON events(job) WHERE job IS NOT NULL;
CREATE INDEX events_trouble ON events(run, id) WHERE level <> 'INFO';

CREATE TABLE samples (
    run     INTEGER NOT NULL REFERENCES runs(seq),
    at      REAL NOT NULL,
    pages   REAL NOT NULL,                         -- per second since the last sample
    rows    REAL NOT NULL,
    failed  INTEGER NOT NULL,
    queue   INTEGER NOT NULL,
    answers TEXT,                                  -- JSON: by class of status (2xx, 429, none …), those of a second
    p50     REAL,                                  -- seconds of the answers since the last sample; null: none
    p95     REAL,
    PRIMARY KEY (run, at)
) WITHOUT ROWID;

CREATE TABLE health (                               -- of each version of a dataDef that has fields
    run      INTEGER NOT NULL REFERENCES runs(seq),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    pages    INTEGER NOT NULL DEFAULT 0,            -- it was applied to
    records  INTEGER NOT NULL DEFAULT 0,            -- that became rows or were rejected
    rejected INTEGER NOT NULL DEFAULT 0,
    filtered INTEGER NOT NULL DEFAULT 0,            -- records that a filter dropped
    PRIMARY KEY (run, data_def)
) WITHOUT ROWID;

CREATE TABLE field_health (
    id       INTEGER PRIMARY KEY,                   -- the order of the fields
    run      INTEGER NOT NULL REFERENCES runs(seq),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    field    TEXT NOT NULL,
    defaults INTEGER NOT NULL,                      -- 1: it has a default, and may be missing
    missing  INTEGER NOT NULL DEFAULT 0,            -- in so many records, before its default
    UNIQUE (run, data_def, field)
);

CREATE TABLE host_health (                          -- the same by host
    host     INTEGER NOT NULL REFERENCES hosts(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    field    TEXT NOT NULL,                         -- empty: the counts of the dataDef
    pages    INTEGER NOT NULL,                      -- it was applied to
    records  INTEGER NOT NULL,                      -- of a field, those that lack it
    rejected INTEGER NOT NULL,
    PRIMARY KEY (host, data_def, field)
) WITHOUT ROWID;
CREATE INDEX host_health_rejected ON host_health(host) WHERE rejected > 0;

CREATE TABLE page_health (
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    records  INTEGER NOT NULL,
    rejected INTEGER NOT NULL,
    missing  TEXT,                                  -- JSON: field to records; null: no field was missing
    filtered INTEGER NOT NULL,
    PRIMARY KEY (job, data_def)
) WITHOUT ROWID;

CREATE TABLE page_warnings (                        -- doubts about values, the first of a field and code
    run      INTEGER NOT NULL REFERENCES runs(seq),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    field    TEXT NOT NULL,                         -- empty: about the whole dataDef
    code     TEXT NOT NULL,
    text     TEXT NOT NULL,
    PRIMARY KEY (run, data_def, field, code)
) WITHOUT ROWID;

CREATE TABLE host_speeds (                          -- of a host, for viewers; hosts has wide rows
    host        INTEGER PRIMARY KEY REFERENCES hosts(id),
    run         INTEGER NOT NULL REFERENCES runs(seq),
    bytes       INTEGER NOT NULL DEFAULT 0,         -- of the bodies it sent; a kill may lose a second
    measured_at REAL NOT NULL DEFAULT 0,            -- boot-time second of the last flush of its latency
    p50         REAL,                               -- seconds of its answers, in the last minute it had some
    p95         REAL,
    recent_p50  TEXT,                               -- JSON: of each of the last intervals, null: no answer
    eta         REAL,                               -- estimated seconds until its pages have ended
    state       TEXT,                               -- crawl_engine.model.host.HostState; null: not judged
    pages_per_s REAL NOT NULL DEFAULT 0,            -- in the last seconds
    silent_since REAL                               -- boot-time second; null: not silent
);
CREATE INDEX host_speeds_measured ON host_speeds(run, measured_at);
CREATE INDEX host_speeds_eta ON host_speeds(run) WHERE eta IS NOT NULL;

CREATE TABLE host_answers (
    host    INTEGER NOT NULL REFERENCES hosts(id),
    status  INTEGER NOT NULL,                       -- 0: a request without an answer
    answers INTEGER NOT NULL,
    PRIMARY KEY (host, status)
) WITHOUT ROWID;

CREATE TABLE host_latencies (                       -- histograms of hosts that answer: crawl_engine.model.latency
    host    INTEGER NOT NULL REFERENCES hosts(id),
    bucket  INTEGER NOT NULL,
    answers INTEGER NOT NULL,
    PRIMARY KEY (host, bucket)
) WITHOUT ROWID;

CREATE TABLE failures (                             -- the failed jobs of a sequence by reason; triggers count them
    sequence INTEGER NOT NULL REFERENCES sequences(id),
    reason   TEXT NOT NULL,
    jobs     INTEGER NOT NULL,
    PRIMARY KEY (sequence, reason)
) WITHOUT ROWID;

CREATE TABLE results (                              -- of steps on pages; of warnings, the first 1,000 of a step and code
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    run      INTEGER NOT NULL REFERENCES runs(seq),
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id), -- the unit of extraction
    grp      TEXT NOT NULL,
    task     TEXT NOT NULL,
    step     TEXT NOT NULL,
    outcome  TEXT NOT NULL CHECK (outcome IN ('ok','warning','error')),
    code     TEXT NOT NULL,
    ms       REAL NOT NULL,
    text     TEXT NOT NULL
);
CREATE INDEX results_job ON results(job);
CREATE INDEX results_error ON results(run, id) WHERE outcome = 'error';
CREATE INDEX results_warning ON results(run, id) WHERE outcome = 'warning';

CREATE TABLE unlisted_results (                     -- of a page, those without a row, so that they can be taken back
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    grp      TEXT NOT NULL,
    task     TEXT NOT NULL,
    step     TEXT NOT NULL,
    outcome  TEXT NOT NULL CHECK (outcome IN ('warning','not_applicable')),
    code     TEXT NOT NULL,
    results  INTEGER NOT NULL,
    PRIMARY KEY (job, data_def, step, outcome, code)
) WITHOUT ROWID;

CREATE TABLE result_counts (                        -- all outcomes
    run     INTEGER NOT NULL REFERENCES runs(seq),
    grp     TEXT NOT NULL,
    task    TEXT NOT NULL,
    step    TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('ok','warning','error','not_applicable')),
    code    TEXT NOT NULL,
    results INTEGER NOT NULL,
    PRIMARY KEY (run, grp, task, step, outcome, code)
) WITHOUT ROWID;

CREATE TABLE step_values (                          -- what the steps of a run share
    run   INTEGER NOT NULL REFERENCES runs(seq),
    key   TEXT NOT NULL,
    value TEXT NOT NULL,                            -- JSON
    PRIMARY KEY (run, key)
) WITHOUT ROWID;

CREATE TABLE step_checkpoints (                     -- for the next attempt at a job; deleted when it ends
    job  INTEGER PRIMARY KEY REFERENCES jobs(id),
    text TEXT NOT NULL
);

CREATE TABLE temporary_documents (                  -- fetched for groups that keep no documents: deleted when their run ends
    run      INTEGER NOT NULL REFERENCES runs(seq),
    document INTEGER NOT NULL,
    grp      TEXT NOT NULL,
    PRIMARY KEY (run, document)
) WITHOUT ROWID;

CREATE TABLE content_sums (                         -- of a group; they move in the commits
    run          INTEGER NOT NULL REFERENCES runs(seq),
    grp          TEXT NOT NULL,
    documents    INTEGER NOT NULL,                  -- jobs that have a document
    document_sum BLOB NOT NULL,                     -- of their digests, once for each job
    rows         INTEGER NOT NULL,
    row_sum      BLOB NOT NULL,
    PRIMARY KEY (run, grp)
) WITHOUT ROWID;

-- Plugin appenders deliver rows instead of writing a file; they are never rebuilt.

CREATE TABLE deliveries (                           -- what an output without a file got; kept when it is removed
    id         INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL REFERENCES runs(seq),
    appender   TEXT NOT NULL,
    data_def   TEXT NOT NULL,
    offered    INTEGER NOT NULL DEFAULT 0,          -- the highest row ever offered; committed before it is sent
    cursor     INTEGER NOT NULL DEFAULT 0,          -- the last row it acknowledged
    withdrawal INTEGER NOT NULL DEFAULT 0,          -- the last withdrawal it acknowledged
    rows       INTEGER NOT NULL DEFAULT 0,          -- acknowledged, without those taken back
    UNIQUE (run, appender, data_def)
);

CREATE TABLE withdrawals (                          -- deleted rows that an appender may have got
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery INTEGER NOT NULL REFERENCES deliveries(id),
    row      INTEGER NOT NULL,
    newest   INTEGER NOT NULL,                      -- the newest row of all when it was deleted
    counted  INTEGER NOT NULL                       -- 0: it was not acknowledged yet
);
CREATE INDEX withdrawals_delivery ON withdrawals(delivery, id);

CREATE TABLE refusals (                            -- hosts that refuse one request after the other
    host       INTEGER PRIMARY KEY REFERENCES hosts(id), -- that has the limits of those with one limit together
    refused    INTEGER NOT NULL,                     -- requests in a row
    seconds    REAL NOT NULL,                        -- in which they were, without waits that somebody asked for
    counted_to REAL,                                 -- boot time from which time counts on; null: from the next refusal
    given_up   INTEGER NOT NULL DEFAULT 0            -- 1: its pages are no longer asked for
);

CREATE TABLE session_losses (                       -- pages that were answered as if nobody had logged in
    job   INTEGER PRIMARY KEY REFERENCES jobs(id),
    login INTEGER NOT NULL                          -- the number of the login with which they were sent
);

CREATE TABLE cookie_jars (
    run        INTEGER NOT NULL REFERENCES runs(seq),
    site       TEXT NOT NULL,                       -- registrable domain
    version    INTEGER NOT NULL,                    -- counts the changes of all jars of the run
    node       INTEGER NOT NULL,                    -- epoch of the node that wrote it
    jar        BLOB NOT NULL,                       -- JSON
    PRIMARY KEY (run, site)
) WITHOUT ROWID;
CREATE INDEX cookie_jars_version ON cookie_jars(run, version);

CREATE TABLE files (                                -- what jobs of the kind 'file' downloaded; the newest of a job counts
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    run  INTEGER NOT NULL REFERENCES runs(seq),
    job  INTEGER NOT NULL REFERENCES jobs(id),
    path TEXT NOT NULL,                             -- in the output folder of the run
    size INTEGER NOT NULL,
    hash TEXT NOT NULL,                             -- SHA-256 of the content, in hex
    type TEXT NOT NULL,                             -- content type
    key  BLOB NOT NULL,                             -- of the URL, as the identity of the job
    at   REAL NOT NULL,                             -- when its site last sent it, or said that it is unchanged
    validators TEXT NOT NULL                        -- JSON: the hash of the URL that sent it, headers to ask by, its name; or empty
);
CREATE INDEX files_job ON files(job);
CREATE INDEX files_hash ON files(hash, run);
CREATE INDEX files_key ON files(key);

CREATE TABLE held_rows (                            -- rows of a page that wait for files; never in `rows` at the same time
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    run      INTEGER NOT NULL REFERENCES runs(seq),
    job      INTEGER NOT NULL REFERENCES jobs(id),  -- of the page
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    data     TEXT NOT NULL,                         -- as in `rows`, with a URL in the place of each file
    files    TEXT NOT NULL,                         -- JSON: pairs of where a URL stands in the data, and the job of its file
    key      BLOB                                   -- as in `rows`
);
CREATE INDEX held_rows_job ON held_rows(job);
CREATE INDEX held_rows_run ON held_rows(run);

CREATE TABLE held_files (                           -- the files for which a row waits
    held INTEGER NOT NULL REFERENCES held_rows(id),
    file INTEGER NOT NULL REFERENCES jobs(id),
    PRIMARY KEY (held, file)
) WITHOUT ROWID;
CREATE INDEX held_files_file ON held_files(file);
