"""Writes the table `locators`: locators as written in the defs, one row for all their jobs."""

from engine.store.db.connector import Database

_ENSURE = """
INSERT INTO locators (run, grp, name, request) VALUES (?, ?, ?, ?)
ON CONFLICT (run, grp, name, request) DO NOTHING RETURNING id
"""
_FIND = "SELECT id FROM locators WHERE run = ? AND grp = ? AND name = ? AND request = ?"


def ensure(db: Database, run: int, group: str, name: str, request: str) -> int:
    """The id of a locator. `request` is the JSON that `candidates.parse_request` reads; names need not be unique."""
    key = (run, group, name, request)
    created = db.value(_ENSURE, key)
    return int(created if created is not None else db.value(_FIND, key))
