-- Migration 6 of crawl.db: what hosts answered and how fast, what an operator set for them, why jobs failed, on which
-- page a job was found, and what the plots show of answers.

ALTER TABLE hosts ADD COLUMN operator_delay REAL;                   -- set at run time; null: that of the defs applies
ALTER TABLE hosts ADD COLUMN operator_concurrency INTEGER;
ALTER TABLE hosts ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;     -- 1: an operator paused it

CREATE TABLE host_speeds (                          -- of a host, for viewers; hosts has wide rows
    host        INTEGER PRIMARY KEY REFERENCES hosts(id),
    run         INTEGER NOT NULL REFERENCES runs(seq),
    bytes       INTEGER NOT NULL DEFAULT 0,         -- of the bodies it sent; a kill may lose a second
    measured_at REAL NOT NULL DEFAULT 0,            -- boot-time second of the last flush of its latency
    p50         REAL,                               -- seconds of its answers, in the last minute it had some
    p95         REAL,
    recent_p50  TEXT,                               -- JSON: of each of the last intervals, null: no answer
    eta         REAL                                -- estimated seconds until its pages have ended
);
CREATE INDEX host_speeds_measured ON host_speeds(run, measured_at);
CREATE INDEX host_speeds_eta ON host_speeds(run) WHERE eta IS NOT NULL;

CREATE TABLE host_answers (
    host    INTEGER NOT NULL REFERENCES hosts(id),
    status  INTEGER NOT NULL,                       -- 0: a request without an answer
    answers INTEGER NOT NULL,
    PRIMARY KEY (host, status)
) WITHOUT ROWID;

CREATE TABLE host_latencies (                       -- histograms of hosts that answer: engine.model.latency
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
INSERT INTO failures (sequence, reason, jobs)
SELECT sequence, coalesce(reason, ''), count(*) FROM jobs WHERE state = 'FAILED' GROUP BY sequence, coalesce(reason, '');

CREATE TRIGGER failures_added AFTER UPDATE OF state, reason, sequence ON jobs WHEN NEW.state = 'FAILED' BEGIN
    INSERT INTO failures (sequence, reason, jobs) VALUES (NEW.sequence, coalesce(NEW.reason, ''), 1)
    ON CONFLICT (sequence, reason) DO UPDATE SET jobs = jobs + 1;
END;

CREATE TRIGGER failures_removed AFTER UPDATE OF state, reason, sequence ON jobs WHEN OLD.state = 'FAILED' BEGIN
    UPDATE failures SET jobs = jobs - 1 WHERE sequence = OLD.sequence AND reason = coalesce(OLD.reason, '');
    DELETE FROM failures WHERE sequence = OLD.sequence AND reason = coalesce(OLD.reason, '') AND jobs <= 0;
END;

CREATE TRIGGER failures_deleted AFTER DELETE ON jobs WHEN OLD.state = 'FAILED' BEGIN
    UPDATE failures SET jobs = jobs - 1 WHERE sequence = OLD.sequence AND reason = coalesce(OLD.reason, '');
    DELETE FROM failures WHERE sequence = OLD.sequence AND reason = coalesce(OLD.reason, '') AND jobs <= 0;
END;

ALTER TABLE jobs ADD COLUMN parent INTEGER;         -- the job on whose page its link was found first
CREATE INDEX jobs_children ON jobs(parent) WHERE parent IS NOT NULL;

ALTER TABLE samples ADD COLUMN answers TEXT;        -- JSON: by class of status (2xx, 429, none …), those of a second
ALTER TABLE samples ADD COLUMN p50 REAL;            -- seconds of the answers since the last sample; null: none
ALTER TABLE samples ADD COLUMN p95 REAL;
