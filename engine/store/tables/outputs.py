"""Outputs: which files a run writes, how far each has come, and rebuilds under way. Alone in writing `outputs`.

The cursor of an output is the id of the last row in its file, the bytes are the file's durable length: both move
in one transaction after the file was flushed, so a file is always cut back to what the table says.
`dirty` counts the reasons to rebuild: a rebuild takes off those it saw when it began, so none that came in meanwhile
is forgotten.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from engine.store.db.connector import Database

_ENSURE = """
INSERT INTO outputs (run, appender, type, data_def, path, settings) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (run, appender, data_def) DO UPDATE SET
    dirty = dirty + (type <> excluded.type OR path <> excluded.path OR settings <> excluded.settings),
    type = excluded.type, path = excluded.path, settings = excluded.settings
"""
_COLUMNS = "id, appender, type, data_def, path, settings, cursor, bytes, rows, inode, dirty, pending"
_LIST = f"SELECT {_COLUMNS} FROM outputs WHERE run = ? ORDER BY id"
_ADVANCE = "UPDATE outputs SET cursor = ?, bytes = ?, rows = ?, inode = ? WHERE id = ?"
_MARK_DIRTY = "UPDATE outputs SET dirty = dirty + 1 WHERE run = ? AND data_def = ? AND cursor >= ?"
_MARK_STALE = """
UPDATE outputs SET dirty = dirty + 1 WHERE run = ? AND data_def IN (SELECT value FROM json_each(?))
"""
_PRUNE = """
DELETE FROM outputs WHERE run = ? AND NOT EXISTS (
    SELECT 1 FROM json_each(?) k WHERE k.value ->> 0 = outputs.appender AND k.value ->> 1 = outputs.data_def)
RETURNING path
"""
_REBUILD_MARKS = "SELECT id, dirty FROM outputs WHERE run = ?"
_BEGIN_REBUILD = "UPDATE outputs SET cursor = max(cursor, ?) WHERE id = ? AND dirty > 0 RETURNING cursor, dirty"
_MARK_CORRUPT = "UPDATE outputs SET dirty = dirty + 1 WHERE id = ?"
_SET_PENDING = "UPDATE outputs SET pending = ? WHERE id = ?"
_FINISH_REBUILD = """
UPDATE outputs SET cursor = :cursor, bytes = :bytes, rows = :rows, inode = :inode,
    dirty = max(0, dirty - :reasons), pending = NULL
WHERE id = :output
"""
_PROGRESS = "SELECT data_def, min(cursor), max(dirty) FROM outputs WHERE run = ? GROUP BY data_def"
_HAS_BACKLOG = "SELECT EXISTS (SELECT 1 FROM outputs WHERE run = ? AND (cursor < ? OR dirty))"


@dataclass(frozen=True, slots=True)
class Output:
    """One output file of a run, as its row stands."""

    id: int
    appender: str
    type: str
    data_def: str
    path: str
    settings: dict[str, Any]
    """`columns`: names in order; `joins`: separator of lists by column; `delimiter`; `only_new`: key of a row, where
    the file holds only rows that no earlier run has."""
    cursor: int
    bytes: int
    rows: int
    inode: int | None
    rebuild_marks: int
    """How often it was marked to be rebuilt since it last was."""
    pending: dict[str, int] | None
    """`inode`, `cursor`, `bytes`, `rows`, `reasons` of a rebuilt file that may not yet have its name."""

    @property
    def dirty(self) -> bool:
        """Whether the file is to be rebuilt."""
        return self.rebuild_marks > 0


def ensure(
    db: Database, run: int, *, appender: str, type_: str, data_def: str, path: str, settings: dict[str, Any]
) -> None:
    """Declare an output; one whose form changed is marked to be rebuilt."""
    told = orjson.dumps(settings, option=orjson.OPT_SORT_KEYS).decode()
    db.execute(_ENSURE, (run, appender, type_, data_def, path, told))


def list_outputs(db: Database, run: int) -> list[Output]:
    """Every output of a run."""
    return [
        Output(
            id_, appender, type_, data_def, path, orjson.loads(settings), cursor, size, rows, inode, reasons,
            orjson.loads(pending) if pending else None,
        )
        for id_, appender, type_, data_def, path, settings, cursor, size, rows, inode, reasons, pending
        in db.all(_LIST, (run,))
    ]  # fmt: skip


def advance(db: Database, output: int, *, cursor: int, size: int, rows: int, inode: int | None) -> None:
    """The file is durable up to `size` bytes and holds all rows up to `cursor`."""
    db.execute(_ADVANCE, (cursor, size, rows, inode, output))


def mark_dirty(db: Database, run: int, data_def: str, row: int) -> None:
    """A row was taken back: files that may hold it are to be rebuilt."""
    db.execute(_MARK_DIRTY, (run, data_def, row))


def mark_stale(db: Database, run: int, data_defs: Iterable[str]) -> None:
    """Rows of these dataDefs are about to be replaced: their files are written anew once all are."""
    db.execute(_MARK_STALE, (run, orjson.dumps(list(data_defs)).decode()))


def prune(db: Database, run: int, declared: Sequence[tuple[str, str]]) -> list[str]:
    """Forget all outputs of a run but those (appender, dataDef); returns the files that stay as they are."""
    return [str(row[0]) for row in db.all(_PRUNE, (run, orjson.dumps(list(declared)).decode()))]


def get_rebuild_marks(db: Database, run: int) -> dict[int, int]:
    """By output: how often it was marked to be rebuilt since it last was."""
    return {int(id_): int(dirty) for id_, dirty in db.all(_REBUILD_MARKS, (run,))}


def begin_rebuild(db: Database, output: int, row: int) -> tuple[int, int] | None:
    """Before a rebuild that is to hold all rows up to this one: a row taken back meanwhile must mark the output.

    Returns cursor and reasons to rebuild; None: the output needs none any more, or is gone.
    """
    found = db.one(_BEGIN_REBUILD, (row, output))
    return None if found is None else (int(found[0]), int(found[1]))


def mark_corrupt(db: Database, output: int) -> None:
    """What the file holds can no longer be trusted."""
    db.execute(_MARK_CORRUPT, (output,))


def set_pending(db: Database, output: int, told: Mapping[str, int] | None) -> None:
    """A rebuilt file lies beside the old one and is about to take its name (None: it does not)."""
    db.execute(_SET_PENDING, (orjson.dumps(told).decode() if told else None, output))


def finish_rebuild(db: Database, output: int, told: Mapping[str, int]) -> None:
    """The rebuilt file has its name: what was told when it was pending now holds."""
    db.execute(_FINISH_REBUILD, {**told, "output": output})


def get_progress(db: Database, run: int) -> dict[str, tuple[int, bool]]:
    """By dataDef: the last row that is in all of its files, and whether one of them is to be rebuilt."""
    return {str(name): (int(cursor), bool(dirty)) for name, cursor, dirty in db.all(_PROGRESS, (run,))}


def has_backlog(db: Database, run: int, last_row: int) -> bool:
    """Whether an output lacks a row, or must be rebuilt."""
    return bool(db.value(_HAS_BACKLOG, (run, last_row)))
