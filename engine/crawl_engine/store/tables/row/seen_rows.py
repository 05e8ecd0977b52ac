"""Writes the tables `seen_scopes` and `seen_rows`: what deleted runs had, for `only_new`."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from crawl_engine.store.db.connector import Database, placeholders

RowDigest = Callable[[str, Sequence[str]], bytes]
"""The digest of a row, given as JSON, by the fields of its key."""

_DECLARED = """
SELECT DISTINCT data_def, settings ->> '$.only_new' FROM outputs WHERE settings ->> '$.only_new' IS NOT NULL
"""
_ENSURE = "INSERT INTO seen_scopes (data_def, fields) VALUES (?, ?) ON CONFLICT DO NOTHING"
_ADD = """
INSERT INTO seen_rows (scope, digest, run) {values}
ON CONFLICT (scope, digest) DO UPDATE SET run = min(seen_rows.run, excluded.run)
"""
_FIND = """
SELECT r.digest FROM seen_scopes s CROSS JOIN seen_rows r ON r.scope = s.id
WHERE s.data_def = ? AND s.fields = ? AND r.run < ? AND r.digest IN ({digests})
"""
_HAS_EARLIER = """
SELECT EXISTS (
    SELECT 1 FROM seen_scopes s CROSS JOIN seen_rows r ON r.scope = s.id
    WHERE s.data_def = ? AND s.fields = ? AND r.run < ?)
"""
_BATCH = 500


class SeenScope(Struct, frozen=True):
    """A dataDef and the fields by which its rows were compared; without fields, whole rows."""

    id: int
    data_def: str
    fields: tuple[str, ...]


def record_scopes(db: Database) -> None:
    """Keep how the outputs of all runs tell new rows, before one of these runs is deleted."""
    for data_def, fields in db.all(_DECLARED):
        db.execute(_ENSURE, (data_def, encode_fields(json.loads(fields))))


def list_scopes(db: Database) -> list[SeenScope]:
    return [
        SeenScope(id_, data_def, tuple(json.loads(fields)))
        for id_, data_def, fields in db.all("SELECT id, data_def, fields FROM seen_scopes")
    ]


def add(db: Database, run: int, scope: int, digests: set[bytes]) -> None:
    """Keep rows of a run that is being deleted."""
    db.execute_values(_ADD, [(scope, digest, run) for digest in sorted(digests)])


def find(db: Database, data_def: str, fields: Sequence[str], digests: Sequence[bytes], before: int) -> set[bytes]:
    """Which of the digests a deleted run with a number below `before` had."""
    return find_digests(db, _FIND, (data_def, encode_fields(fields), before), digests)


def find_digests(db: Database, sql: str, parameters: Sequence[Any], digests: Sequence[bytes]) -> set[bytes]:
    """Which of the digests a statement finds. Its `{digests}` come after its other parameters."""
    found: set[bytes] = set()
    for start in range(0, len(digests), _BATCH):
        part = digests[start : start + _BATCH]
        found.update(bytes(row[0]) for row in db.all(sql.format(digests=placeholders(part)), (*parameters, *part)))
    return found


def has_earlier(db: Database, data_def: str, fields: Sequence[str], before: int) -> bool:
    """Whether a deleted run with a number below `before` had a row of the dataDef."""
    return bool(db.value(_HAS_EARLIER, (data_def, encode_fields(fields), before)))


def encode_fields(fields: Sequence[str]) -> str:
    """The fields of a key as they are stored."""
    return json.dumps(list(fields))
