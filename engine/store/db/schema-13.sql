-- Migration 13 of crawl.db: a job may be created TAKEN, by the node that will fetch its page.

DROP TRIGGER jobs_born;
CREATE TRIGGER jobs_born AFTER INSERT ON jobs BEGIN
    UPDATE sequences SET
        ready   = ready   + (NEW.state = 'READY' AND NEW.not_before IS NULL),
        delayed = delayed + (NEW.state = 'READY' AND NEW.not_before IS NOT NULL),
        taken   = taken   + (NEW.state = 'TAKEN'),
        skipped = skipped + (NEW.state = 'SKIPPED')
    WHERE id = NEW.sequence;
END;
