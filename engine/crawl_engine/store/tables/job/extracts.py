"""Writes the jobs that re-extract stored pages, and the def version that made each page's rows."""

from collections.abc import Iterable, Mapping, Sequence

import orjson

from crawl_engine.model.job import JOB_TRANSITIONS, JobState
from crawl_engine.store.db.connector import Database, id_list, source_states
from crawl_engine.store.tables.job import sequences

_QUEUE = f"""
INSERT INTO jobs (run, sequence, origin, page, url, identity)
SELECT j.run, e.id, 'link', j.id, j.url, CAST('extract ' || j.id AS BLOB) FROM json_each(?) i
CROSS JOIN jobs j ON j.id = i.value JOIN sequences s ON s.id = j.sequence
JOIN sequences e ON e.run = s.run AND e.grp = s.grp AND e.host = s.host AND e.kind = 'extract' WHERE true
ON CONFLICT (run, identity) DO UPDATE SET state = 'READY', crashes = 0, reason = NULL, reason_code = NULL
WHERE jobs.state IN {source_states(JOB_TRANSITIONS, JobState.READY)} AND jobs.state <> 'TAKEN'
"""
_DROP = """
DELETE FROM jobs WHERE id IN (
    SELECT id FROM jobs WHERE sequence = ? AND state = 'READY' AND not_before IS NULL LIMIT +?) AND page IS NOT NULL
"""
_DROP_OF_PAGES = """
DELETE FROM jobs WHERE id IN (SELECT e.id FROM json_each(?) i CROSS JOIN jobs j ON j.id = i.value
    CROSS JOIN jobs e ON e.run = j.run AND e.identity = CAST('extract ' || j.id AS BLOB))
"""
_CLEAR_DEFS_VERSION = """
UPDATE jobs SET defs = NULL WHERE id > ? AND id <= ? AND state IN ('DONE', 'FAILED') AND +sequence IN (
    SELECT id FROM sequences WHERE run = ? AND kind = 'page' AND grp IN (SELECT value FROM json_each(?) texts))
"""


# a re-extraction moves its page between the two
_SET_STEP_FAILED = """
WITH e (id, reason) AS ({values}) UPDATE jobs SET state = 'FAILED', reason = e.reason, reason_code = NULL
FROM e WHERE jobs.id = e.id AND jobs.state IN ('DONE', 'FAILED')
"""
_CLEAR_STEP_FAILED = """
UPDATE jobs SET state = 'DONE', reason = NULL WHERE id IN (SELECT value FROM json_each(?)) AND state = 'FAILED'
"""


def queue(db: Database, pages: Iterable[int]) -> None:
    """Create the jobs that re-extract these done pages; one that is already READY is kept."""
    json_ids = id_list(dict.fromkeys(pages))
    sequences.ensure_extracts(db, json_ids)
    db.execute(_QUEUE, (json_ids,))


def queue_again(db: Database, pages: Sequence[int]) -> None:
    """Create the jobs that re-extract these done pages with all of their dataDefs, whatever defs made their rows."""
    if pages:
        db.execute("UPDATE jobs SET defs = NULL WHERE id IN (SELECT value FROM json_each(?))", (id_list(pages),))
        queue(db, pages)


def drop(db: Database, sequence: int, limit: int) -> int:
    """Delete the due re-extractions of a sequence, at most `limit`: its pages keep their rows. Returns how many."""
    return int(db.execute(_DROP, (sequence, limit)).rowcount)


def drop_of_pages(db: Database, pages: Iterable[int]) -> None:
    db.execute(_DROP_OF_PAGES, (id_list(pages),))


def set_defs_version(db: Database, version: int, pages: Iterable[int]) -> None:
    db.execute("UPDATE jobs SET defs = ? WHERE id IN (SELECT value FROM json_each(?))", (version, id_list(pages)))


def clear_defs_version(db: Database, run: int, groups: Sequence[str], after: int, upto: int) -> None:
    """Mark the done pages of these groups as stale, in a range of ids."""
    db.execute(_CLEAR_DEFS_VERSION, (after, upto, run, orjson.dumps(groups).decode()))


def set_step_failures(db: Database, failed: Mapping[int, str], succeeded: Sequence[int]) -> None:
    """After a re-extraction: FAILED are the pages on which a plugin step failed, with the reason; others are DONE."""
    if failed:
        db.execute_values(_SET_STEP_FAILED, list(failed.items()))
    if succeeded:
        db.execute(_CLEAR_STEP_FAILED, (id_list(succeeded),))
