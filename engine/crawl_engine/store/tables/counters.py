"""Writes the table `counters`: what happens rarely in a run, by name and scope. Counters only rise."""

from collections.abc import Mapping

from crawl_engine.store.db.connector import Database

REJECTED = "rejected"
"""Rejected records; the scope is JSON: dataDef, field, reason."""
_ADD = """
INSERT INTO counters (run, name, scope, value) {values}
ON CONFLICT (run, name, scope) DO UPDATE SET value = counters.value + excluded.value
"""


def add(db: Database, run: int, name: str, counts: Mapping[str, int]) -> None:
    """Add to the counters of a name, by scope."""
    db.execute_values(_ADD, [(run, name, scope, count) for scope, count in counts.items()])


def read(db: Database, run: int, name: str) -> dict[str, int]:
    """The counters of a name, by scope."""
    return dict(db.all("SELECT scope, value FROM counters WHERE run = ? AND name = ? ORDER BY scope", (run, name)))
