"""Finds jobs of runs of schema 2 and earlier, whose URLs hold the credentials that are sealed today."""

from engine import urls
from engine.store.db.connector import Database

_MAYBE_UNSEALED = "SELECT url FROM jobs WHERE run = ? AND origin = 'locator' AND url LIKE '%@%'"


def has_unsealed_jobs(db: Database, run: int) -> bool:
    """Whether a locator's job of the run holds `user:password` in its URL. Reads all jobs of the run."""
    return any(urls.userinfo_of(str(url)) for (url,) in db.all(_MAYBE_UNSEALED, (run,)))
