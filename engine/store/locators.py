"""Locators as written in the defs, one row for all jobs they make. Alone in writing `locators`."""

from engine.store.connector import Database

_ENSURE = """
INSERT INTO locators (run, grp, name, request) VALUES (?, ?, ?, ?)
ON CONFLICT (run, grp, name) DO UPDATE SET request = excluded.request RETURNING id
"""


def ensure(db: Database, run: int, group: str, name: str, request: str) -> int:
    """The id of a locator. `request` is the JSON that `jobs.leased` reads back."""
    return int(db.value(_ENSURE, (run, group, name, request)))
