"""Lists names that a user may type: dataDefs, runs, and what the latest run has."""

from collections.abc import Mapping
from typing import Literal

from crawl_engine.store.db.connector import Database

NameKind = Literal["data_def", "run", "group", "sequence", "host", "node"]
_LIMIT = 200
_LATEST = "(SELECT max(seq) FROM runs)"
_NAMES: Mapping[NameKind, str] = {
    "data_def": "SELECT DISTINCT name FROM data_defs",
    "run": "SELECT id AS name FROM runs ORDER BY seq DESC",
    "group": f"SELECT DISTINCT grp AS name FROM sequences WHERE run = {_LATEST} AND kind = 'page'",
    "sequence": f"""
        SELECT grp AS name FROM sequences WHERE run = {_LATEST} AND kind = 'page' UNION
        SELECT s.grp || '@' || h.key FROM sequences s JOIN hosts h ON h.id = s.host
        WHERE s.run = {_LATEST} AND s.kind = 'page'""",
    "host": f"SELECT key AS name FROM hosts WHERE run = {_LATEST}",
    "node": f"SELECT 'n' || number AS name FROM nodes WHERE run = {_LATEST} AND ended_at IS NULL",
}


def list_known_names(db: Database, kind: NameKind, start: str) -> list[str]:
    """The first names of a kind that begin with a text; runs newest first."""
    sql = f"SELECT name FROM ({_NAMES[kind]}) known WHERE substr(name, 1, ?) = ? LIMIT +?"
    return db.column(sql, (len(start), start, _LIMIT))
