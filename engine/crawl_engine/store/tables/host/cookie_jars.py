"""Writes the table `cookie_jars`: the cookies of sites, which the nodes of a run share."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.outcome import Commit, Effect, JobOutcome

_PUT = """
INSERT INTO cookie_jars (run, site, version, node, jar)
SELECT :run, :site, 1 + coalesce((SELECT max(version) FROM cookie_jars WHERE run = :run), 0), :node, :jar
WHERE true ON CONFLICT (run, site) DO UPDATE SET version = excluded.version, node = excluded.node,
    jar = excluded.jar
"""
_LIST_NEWER = """
SELECT version, site, jar AS "jar.jar", node AS "jar.node" FROM cookie_jars
WHERE run = ? AND version > ? AND node <> ? ORDER BY version
"""


class StoredJar(NamedTuple):
    """The cookies of a site as JSON, and the node (its epoch) that wrote them."""

    jar: bytes
    node: int


class NewerJar(NamedTuple):
    version: int
    site: str
    jar: StoredJar


class ChangedJar(Protocol):
    """The cookies of a site, which all nodes share."""

    def write(self, db: Database, run: int) -> None:
        """Write them in the open transaction, merged with what other nodes have written."""


class CookiesChanged(Effect):
    """A site changed cookies that nodes share."""

    jar: ChangedJar


def write(commit: Commit, made: Sequence[tuple[JobOutcome, CookiesChanged]]) -> None:
    """Write each changed jar once."""
    for jar in dict.fromkeys(changed.jar for _, changed in made):
        jar.write(commit.db, commit.run)


def get(db: Database, run: int, site: str) -> StoredJar | None:
    return db.row(StoredJar, "SELECT jar, node FROM cookie_jars WHERE run = ? AND site = ?", (run, site))


def put(db: Database, run: int, site: str, jar: StoredJar) -> None:
    db.execute(_PUT, {"run": run, "site": site, "node": jar.node, "jar": jar.jar})


def list_newer(db: Database, run: int, version: int, node: int) -> list[NewerJar]:
    """The jars that other nodes have written since that version."""
    return db.rows(NewerJar, _LIST_NEWER, (run, version, node))


def delete_earlier(db: Database, run: int) -> None:
    db.execute("DELETE FROM cookie_jars WHERE run < ?", (run,))
