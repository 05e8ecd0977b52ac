"""Locators as written in the defs, one row for all jobs they make. Alone in writing `locators`."""

from engine.store.db.connector import Database

_ENSURE = """
INSERT INTO locators (run, grp, name, request) VALUES (?, ?, ?, ?)
ON CONFLICT (run, grp, name, request) DO NOTHING RETURNING id
"""
_FIND = "SELECT id FROM locators WHERE run = ? AND grp = ? AND name = ? AND request = ?"


def ensure(db: Database, run: int, group: str, name: str, request: str) -> int:
    """The id of a locator. `request` is the JSON that `candidates.leased` reads back; locators may share a name."""
    told = (run, group, name, request)
    made = db.value(_ENSURE, told)
    return int(made if made is not None else db.value(_FIND, told))
