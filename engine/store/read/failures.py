"""Lists the failed jobs of a run for a summary."""

from engine.store.db.connector import Database

_FAILURES = """
SELECT coalesce(target, url), reason FROM jobs WHERE run = ? AND state = 'FAILED' AND page IS NULL
ORDER BY coalesce(changed_at, 0), id LIMIT ?
"""


def list_failures(db: Database, run: int, limit: int) -> list[tuple[str, str]]:
    """URL and reason of the first failed jobs."""
    return [(str(url), str(reason)) for url, reason in db.all(_FAILURES, (run, limit))]
