-- crawl.db: what changes together with the rows of a table. postgres.sql has the same for PostgreSQL.

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
        taken   = taken   + (NEW.state = 'TAKEN'),
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
