"""Writes the table `cookie_jars`: the encrypted cookies of sites, which the nodes of a run share."""

from typing import NamedTuple

from engine.store.db.connector import Database

_GET = "SELECT key, jar, node FROM cookie_jars WHERE run = ? AND site = ?"
_PUT = """
INSERT INTO cookie_jars (run, site, version, changed_at, node, key, jar)
SELECT :run, :site, 1 + coalesce((SELECT max(version) FROM cookie_jars WHERE run = :run), 0), :now, :node, :key, :jar
WHERE true ON CONFLICT (run, site) DO UPDATE SET version = excluded.version, changed_at = excluded.changed_at,
    node = excluded.node, key = excluded.key, jar = excluded.jar
"""
_LIST_NEWER = """
SELECT version, site, key, jar, node FROM cookie_jars WHERE run = ? AND version > ? AND node <> ? ORDER BY version
"""
_HAS_KEY = "SELECT EXISTS (SELECT 1 FROM cookie_jars WHERE run = ? AND key = ?)"
_DELETE_EARLIER = "DELETE FROM cookie_jars WHERE run < ?"


class EncryptedJar(NamedTuple):
    """The cookies of a site, the name of the key that opens them, and the node (its epoch) that wrote them."""

    key: str
    jar: bytes
    node: int


class NewerJar(NamedTuple):
    """A jar that another node has written."""

    version: int
    site: str
    jar: EncryptedJar


def get(db: Database, run: int, site: str) -> EncryptedJar | None:
    """The jar of a site."""
    row = db.one(_GET, (run, site))
    return None if row is None else EncryptedJar(str(row[0]), bytes(row[1]), int(row[2]))


def put(db: Database, run: int, site: str, jar: EncryptedJar, *, now: float) -> None:
    """Write the jar of a site. `now`: wall clock."""
    db.execute(_PUT, {"run": run, "site": site, "now": now, "node": jar.node, "key": jar.key, "jar": jar.jar})


def list_newer(db: Database, run: int, version: int, node: int) -> list[NewerJar]:
    """The jars that other nodes have written since that version."""
    newer = db.all(_LIST_NEWER, (run, version, node))
    return [
        NewerJar(int(number), str(site), EncryptedJar(str(key), bytes(jar), int(writer)))
        for number, site, key, jar, writer in newer
    ]


def has_key(db: Database, run: int, key: str) -> bool:
    """Whether a jar of the run opens with this key."""
    return bool(db.value(_HAS_KEY, (run, key)))


def delete_earlier(db: Database, run: int) -> None:
    """Delete the jars of earlier runs, which cannot be resumed any more."""
    db.execute(_DELETE_EARLIER, (run,))
