"""Writes the table `outputs`: the files of a run, their cursors, and rebuilds.

The cursor of an output is the id of the last row in its file, `bytes` is the file's durable length. Both move in one
transaction after the file was flushed, so a file can always be truncated to the length in the table.
`added` counts the rows that it got, and never falls: `rows` does, when a page is read again with fewer.
`dirty` counts the reasons to rebuild. A rebuild subtracts those it saw when it started, so later ones are not lost: the
cursor moves when it ends, so until then the deletion of any row counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

from crawl_engine.store.db.connector import Database

_ENSURE = """
INSERT INTO outputs (run, appender, type, data_def, path, settings) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (run, appender, data_def) DO UPDATE SET
    dirty = outputs.dirty + CASE WHEN outputs.type <> excluded.type OR outputs.path <> excluded.path
        OR outputs.settings <> excluded.settings THEN 1 ELSE 0 END,
    type = excluded.type, path = excluded.path, settings = excluded.settings, delivers = 0
"""
_ENSURE_DELIVERING = """
INSERT INTO outputs (run, appender, type, data_def, path, settings, cursor, rows, added, delivers)
SELECT :run, :appender, :type, :data_def, '', :settings, cursor, rows, rows, 1 FROM deliveries
WHERE run = :run AND appender = :appender AND data_def = :data_def
ON CONFLICT (run, appender, data_def) DO UPDATE SET
    type = excluded.type, path = '', settings = excluded.settings, cursor = excluded.cursor, rows = excluded.rows,
    bytes = 0, inode = NULL, dirty = 0, pending = NULL, delivers = 1
"""
_LIST = """
SELECT id, appender, type, data_def, path, settings, cursor, bytes, rows, inode, dirty AS rebuild_marks, pending,
    delivers, error
FROM outputs WHERE run = ? ORDER BY id
"""
_SIZES = "SELECT appender, data_def, rows, bytes FROM outputs WHERE run = ?"
_ADVANCE = """
UPDATE outputs SET cursor = ?, bytes = ?, added = added + max(0, ? - rows), rows = ?, inode = ? WHERE id = ?
"""
_MARK_DIRTY = """
UPDATE outputs SET dirty = dirty + 1 WHERE run = ? AND data_def = ? AND (cursor >= ? OR dirty <> 0) AND delivers = 0
"""
_PRUNE = """
DELETE FROM outputs WHERE run = ? AND NOT EXISTS (
    SELECT 1 FROM json_each(?) texts WHERE value ->> 0 = outputs.appender AND value ->> 1 = outputs.data_def)
RETURNING path
"""
_SET_PENDING = "UPDATE outputs SET pending = ? WHERE id = ?"
_FINISH_REBUILD = """
UPDATE outputs SET cursor = :cursor, bytes = :bytes, added = added + max(0, :rows - rows), rows = :rows,
    inode = :inode, dirty = max(0, dirty - :reasons), pending = NULL
WHERE id = :output
"""
_WITHDRAWALS_LEFT = """
delivers <> 0 AND EXISTS (SELECT 1 FROM deliveries v JOIN withdrawals w ON w.delivery = v.id
    WHERE v.run = outputs.run AND v.appender = outputs.appender AND v.data_def = outputs.data_def)
"""
_PROGRESS = f"""
SELECT data_def, min(cursor), max(CASE WHEN dirty <> 0 OR ({_WITHDRAWALS_LEFT}) THEN 1 ELSE 0 END)
FROM outputs WHERE run = ? GROUP BY data_def
"""
_BACKLOG = f"""
SELECT appender, data_def, error FROM outputs WHERE run = ? AND (cursor < ? OR dirty <> 0 OR ({_WITHDRAWALS_LEFT}))
ORDER BY error IS NULL, id LIMIT 1
"""
_BEGIN_AGAIN = """
UPDATE outputs SET cursor = 0, bytes = 0, rows = 0, inode = NULL, pending = NULL, error = NULL
WHERE run = ? AND delivers = 0
"""


class Output(Struct, frozen=True):
    id: int
    appender: str
    type: str
    data_def: str
    path: str
    settings: dict[str, Any]
    """`columns`: names in order; `joins`: list separator by column; `delimiter`; `only_new`: key fields of a row, if
    the file holds only rows that no earlier run has. Of plugin classes: `kind` and what they are created with."""
    cursor: int
    bytes: int
    rows: int
    inode: int | None
    rebuild_marks: int
    """Number of marks since the last rebuild."""
    pending: dict[str, int] | None
    """`inode`, `cursor`, `bytes`, `rows`, `reasons` of a rebuilt file that may not be renamed yet."""
    delivers: bool = False
    """Whether rows are delivered to an appender, and there is no file (see `deliveries`)."""
    error: str | None = None
    """Why it could not be written."""

    @property
    def dirty(self) -> bool:
        """Whether the file must be rebuilt."""
        return self.rebuild_marks > 0


def ensure(
    db: Database, run: int, *, appender: str, type_: str, data_def: str, path: str, settings: dict[str, Any]
) -> None:
    """Declare an output; if its format changed, it is marked to be rebuilt."""
    settings_json = orjson.dumps(settings, option=orjson.OPT_SORT_KEYS).decode()
    db.execute(_ENSURE, (run, appender, type_, data_def, path, settings_json))


def ensure_delivering(
    db: Database, run: int, *, appender: str, type_: str, data_def: str, settings: dict[str, Any]
) -> None:
    """Declare an output without a file. It continues behind the rows of its delivery, which must exist."""
    settings_json = orjson.dumps(settings, option=orjson.OPT_SORT_KEYS).decode()
    values = {"run": run, "appender": appender, "type": type_, "data_def": data_def, "settings": settings_json}
    db.execute(_ENSURE_DELIVERING, values)


def list_sizes(db: Database, run: int) -> dict[str, tuple[int, int]]:
    """Rows and bytes of each output, by APPENDER/DATADEF."""
    return {
        f"{appender}/{data_def}": (int(rows), int(size)) for appender, data_def, rows, size in db.all(_SIZES, (run,))
    }


def list_outputs(db: Database, run: int) -> list[Output]:
    return db.rows(Output, _LIST, (run,))


def advance(db: Database, output: int, *, cursor: int, size: int, rows: int, inode: int | None) -> None:
    """Record that the file is durable up to `size` bytes and holds all rows up to `cursor`."""
    db.execute(_ADVANCE, (cursor, size, rows, rows, inode, output))


def mark_dirty(db: Database, run: int, data_def: str, row: int) -> None:
    """Mark the files that may hold a deleted row, or get it by a rebuild, to be rebuilt."""
    db.execute(_MARK_DIRTY, (run, data_def, row))


def prune(db: Database, run: int, declared: Sequence[tuple[str, str]]) -> list[str]:
    """Remove all outputs of a run except these (appender, dataDef); returns the paths of the removed ones."""
    return db.column(_PRUNE, (run, orjson.dumps(list(declared)).decode()))


def get_rebuild_marks(db: Database, run: int) -> dict[int, int]:
    return dict(db.all("SELECT id, dirty FROM outputs WHERE run = ?", (run,)))


def mark_corrupt(db: Database, output: int) -> None:
    """Mark an output to be rebuilt because its file differs from the table, or rows wait for it."""
    db.execute("UPDATE outputs SET dirty = dirty + 1 WHERE id = ?", (output,))


def skip_other_rows(db: Database, output: int, row: int) -> None:
    """Move the cursor to a row; up to it no row belongs in the output."""
    db.execute("UPDATE outputs SET cursor = max(cursor, ?) WHERE id = ?", (row, output))


def set_pending(db: Database, output: int, file_state: Mapping[str, int] | None) -> None:
    """Record a rebuilt file before it is renamed over the old one ; None removes it."""
    db.execute(_SET_PENDING, (orjson.dumps(file_state).decode() if file_state else None, output))


def finish_rebuild(db: Database, output: int, file_state: Mapping[str, int]) -> None:
    """Record that the rebuilt file was renamed; `file_state` is its pending state."""
    db.execute(_FINISH_REBUILD, {**file_state, "output": output})


def begin_files_again(db: Database, run: int) -> None:
    """Have the files of a run written from their first row: the ones so far are on another machine."""
    db.execute(_BEGIN_AGAIN, (run,))


def forget_files(db: Database, run: int) -> None:
    """Forget which files a run has written, so that they are written again: a copied one is another file."""
    db.execute("UPDATE outputs SET inode = NULL, pending = NULL WHERE run = ?", (run,))


def get_progress(db: Database, run: int) -> dict[str, tuple[int, bool]]:
    """By dataDef: the last row that all its files hold, and whether one of them must be rebuilt."""
    return {str(name): (int(cursor), bool(dirty)) for name, cursor, dirty in db.all(_PROGRESS, (run,))}


def list_later_paths(db: Database, run: int) -> set[str]:
    return {str(row[0]) for row in db.all("SELECT DISTINCT path FROM outputs WHERE run > ?", (run,))}


def find_backlog(db: Database, run: int, last_row: int) -> tuple[str, str | None] | None:
    """An output that lacks a row or must be rebuilt, as APPENDER/DATADEF, and why it cannot be written.

    None if every output is complete.
    """
    row = db.one(_BACKLOG, (run, last_row))
    return None if row is None else (f"{row[0]}/{row[1]}", row[2])


def set_error(db: Database, output: int, error: str | None) -> None:
    """Record why an output cannot be written; None: it can."""
    db.execute("UPDATE outputs SET error = ? WHERE id = ? AND error IS NOT ?", (error, output, error))
