"""Writes the table `double_rows`: rows of dataDefs with `unique` whose key another row of the run has."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from crawl_engine.model.record import Texts
from crawl_engine.store.db.connector import Database, id_list, placeholders
from crawl_engine.store.tables.row.seen_rows import find_digests

_TAKEN = "SELECT key FROM rows WHERE run = ? AND key IN ({digests})"
_ADD = "INSERT INTO double_rows (run, job, data_def, key, data, digest) {values}"
_REPLACED = """
SELECT d.name, count(*) FROM json_each(?) j CROSS JOIN double_rows r ON r.job = j.value
JOIN data_defs d ON d.id = r.data_def
WHERE r.data_def NOT IN (SELECT value FROM json_each(?)) GROUP BY d.name
"""
_DELETE_REPLACED = """
DELETE FROM double_rows
WHERE job IN (SELECT value FROM json_each(?)) AND data_def NOT IN (SELECT value FROM json_each(?))
"""
_SUCCESSORS = """
SELECT min(r.id) FROM double_rows r WHERE r.run = ? AND r.key IN ({keys})
    AND NOT EXISTS (SELECT 1 FROM rows o WHERE o.run = r.run AND o.key = r.key) GROUP BY r.key
"""
_MOVE = """
INSERT INTO rows (run, job, data_def, key, data, digest)
SELECT run, job, data_def, key, data, digest FROM double_rows WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id
"""
_MOVED = """
SELECT d.name, s.grp, r.digest FROM json_each(?) i CROSS JOIN double_rows r ON r.id = i.value
JOIN data_defs d ON d.id = r.data_def JOIN jobs j ON j.id = r.job JOIN sequences s ON s.id = j.sequence
"""
_BATCH = 500


class KeyedRows(NamedTuple):
    """Rows of one page and dataDef, with their keys; None: it has no key, and is no double."""

    job: int
    data_def: int
    keys: Sequence[bytes | None]
    texts: Texts
    digests: Iterable[bytes]


def set_aside(db: Database, run: int, added: Sequence[KeyedRows]) -> list[frozenset[int]]:
    """Store the doubles among rows that are about to be added, in order; returns their places by page."""
    keys = {key for rows in added for key in rows.keys if key is not None}
    taken = find_digests(db, _TAKEN, (run,), sorted(keys))
    found = []
    for rows in added:
        doubles = set[int]()
        for place, (key, text, digest) in enumerate(zip(rows.keys, rows.texts, rows.digests, strict=True)):
            if key is None or key not in taken:
                taken |= {key} if key is not None else set()
                continue
            doubles.add(place)
            if isinstance(text, str):
                db.execute_values(_ADD, [(run, rows.job, rows.data_def, key, text, digest)])
            else:
                values = {"run": run, "job": rows.job, "data_def": rows.data_def, "key": key}
                db.insert_large("double_rows", values, {"data": text, "digest": memoryview(digest)})
        found.append(frozenset(doubles))
    return found


def delete_replaced(db: Database, jobs: str, kept: str) -> dict[str, int]:
    """Delete the doubles of jobs except those of the kept dataDefs (both JSON lists of ids); how many, by dataDef."""
    counts = dict(db.all(_REPLACED, (jobs, kept)))
    if counts:
        db.execute(_DELETE_REPLACED, (jobs, kept))
    return counts


def move_oldest(db: Database, run: int, keys: Sequence[bytes]) -> list[tuple[str, str, bytes | None]]:
    """Make the oldest double of each key a row, where no row has the key; returns their dataDefs, groups, digests."""
    moved = []
    for start in range(0, len(keys), _BATCH):
        part = keys[start : start + _BATCH]
        found = db.all(_SUCCESSORS.format(keys=placeholders(part)), (run, *part))
        if ids := id_list(sorted(int(row[0]) for row in found)) if found else "":
            db.execute(_MOVE, (ids,))
            moved += [(str(name), str(group), digest) for name, group, digest in db.all(_MOVED, (ids,))]
            db.execute("DELETE FROM double_rows WHERE id IN (SELECT value FROM json_each(?))", (ids,))
    return moved
