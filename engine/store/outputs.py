"""Outputs: which files a run writes, how far each has come, and rebuilds under way. Alone in writing `outputs`.

The cursor of an output is the id of the last row in its file, the bytes are the file's durable length: both move
in one transaction after the file was flushed, so a file is always cut back to what the table says.
"""

from dataclasses import dataclass
from typing import Any

import orjson

from engine.store.connector import Database

_ENSURE = """
INSERT INTO outputs (run, appender, type, data_def, path, settings) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (run, appender, data_def) DO UPDATE SET
    dirty = dirty OR type <> excluded.type OR path <> excluded.path OR settings <> excluded.settings,
    type = excluded.type, path = excluded.path, settings = excluded.settings
"""
_COLUMNS = "id, appender, type, data_def, path, settings, cursor, bytes, rows, inode, dirty, pending"
_LIST = f"SELECT {_COLUMNS} FROM outputs WHERE run = ? ORDER BY id"
_ADVANCE = "UPDATE outputs SET cursor = ?, bytes = ?, rows = ?, inode = ? WHERE id = ?"
_RESET = "UPDATE outputs SET cursor = 0, bytes = 0, rows = 0, inode = NULL WHERE id = ?"
_DIRTY = "UPDATE outputs SET dirty = 1 WHERE run = ? AND data_def = ? AND cursor >= ?"
_PEND = "UPDATE outputs SET pending = ? WHERE id = ?"
_SETTLE = """
UPDATE outputs SET cursor = ?, bytes = ?, rows = ?, inode = ?, pending = NULL, dirty = 0 WHERE id = ?
"""
_BEHIND = "SELECT EXISTS (SELECT 1 FROM outputs WHERE run = ? AND (cursor < ? OR dirty))"


@dataclass(frozen=True, slots=True)
class Output:
    """One output file of a run, as its row stands."""

    id: int
    appender: str
    type: str
    data_def: str
    path: str
    settings: dict[str, Any]
    """`columns`: names in order; `joins`: separator of lists by column; `delimiter`."""
    cursor: int
    bytes: int
    rows: int
    inode: int | None
    dirty: bool
    pending: dict[str, int] | None
    """`inode`, `cursor`, `bytes`, `rows` of a rebuilt file that may not yet have its name."""


def ensure(
    db: Database, run: int, *, appender: str, type_: str, data_def: str, path: str, settings: dict[str, Any]
) -> None:
    """Declare an output; one whose form changed is marked to be rebuilt."""
    told = orjson.dumps(settings, option=orjson.OPT_SORT_KEYS).decode()
    db.execute(_ENSURE, (run, appender, type_, data_def, path, told))


def listed(db: Database, run: int) -> list[Output]:
    """Every output of a run."""
    return [
        Output(
            id_, appender, type_, data_def, path, orjson.loads(settings), cursor, size, rows, inode, bool(dirty),
            orjson.loads(pending) if pending else None,
        )
        for id_, appender, type_, data_def, path, settings, cursor, size, rows, inode, dirty, pending
        in db.all(_LIST, (run,))
    ]  # fmt: skip


def advance(db: Database, output: int, *, cursor: int, size: int, rows: int, inode: int | None) -> None:
    """The file is durable up to `size` bytes and holds all rows up to `cursor`."""
    db.execute(_ADVANCE, (cursor, size, rows, inode, output))


def reset(db: Database, output: int) -> None:
    """The file is gone or unusable: it starts from nothing."""
    db.execute(_RESET, (output,))


def mark_dirty(db: Database, run: int, data_def: str, row: int) -> None:
    """A row was taken back: files that may hold it are to be rebuilt."""
    db.execute(_DIRTY, (run, data_def, row))


def pend(db: Database, output: int, told: dict[str, int] | None) -> None:
    """A rebuilt file lies beside the old one and is about to take its name (None: it does not)."""
    db.execute(_PEND, (orjson.dumps(told).decode() if told else None, output))


def settle(db: Database, output: int, *, cursor: int, size: int, rows: int, inode: int) -> None:
    """The rebuilt file has its name."""
    db.execute(_SETTLE, (cursor, size, rows, inode, output))


def any_behind(db: Database, run: int, last_row: int) -> bool:
    """Whether an output lacks a row, or must be rebuilt."""
    return bool(db.value(_BEHIND, (run, last_row)))
