"""Writes the tables `deliveries` and `withdrawals`: what senders delivered and must take back.

The changes of an output are its rows by id and, between them, its withdrawals: a withdrawal comes after the rows that
existed when it was made. Rows are recorded as offered before they are sent: a row that is deleted later follows as a
withdrawal, and one that was never offered does not.
"""

from collections.abc import Sequence

import orjson
from msgspec import Struct

from crawl_engine.store.db.connector import Database

_GET = "SELECT id, cursor, withdrawal FROM deliveries WHERE run = ? AND appender = ? AND data_def = ?"
_ADD = "INSERT INTO deliveries (run, appender, data_def) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_WITHDRAW = """
INSERT INTO withdrawals (delivery, row, newest, counted)
SELECT v.id, r.id, (SELECT seq FROM sqlite_sequence WHERE name = 'rows'), CASE WHEN r.id <= v.cursor THEN 1 ELSE 0 END
FROM json_each(?) j CROSS JOIN rows r ON r.job = j.value JOIN data_defs d ON d.id = r.data_def
JOIN deliveries v ON v.run = ? AND v.data_def = d.name AND v.offered >= r.id
WHERE r.data_def NOT IN (SELECT value FROM json_each(?)) ORDER BY r.id
"""
_LIST = "SELECT id, row, newest FROM withdrawals WHERE delivery = ? AND id > ? ORDER BY id LIMIT +?"
_COUNTED = "SELECT total(counted) FROM withdrawals WHERE delivery = ? AND id <= ?"
_ACKNOWLEDGE = """
UPDATE deliveries SET cursor = max(cursor, :row), withdrawal = max(withdrawal, :withdrawal),
    rows = max(0, rows - :taken_back + (SELECT count(*) FROM rows WHERE id IN (SELECT value FROM json_each(:rows))))
WHERE id = :delivery RETURNING cursor, rows
"""


class Delivery(Struct, frozen=True):
    """The position of an output without a file: the last row and the last withdrawal that it acknowledged."""

    id: int
    cursor: int
    withdrawal: int


class Withdrawal(Struct, frozen=True):
    """A deleted row that an output may have got; `newest`: the newest row of all when it was deleted."""

    id: int
    row: int
    newest: int


def ensure(db: Database, run: int, appender: str, data_def: str) -> None:
    """Create the delivery of an output if it is missing. It begins with the first row of the run."""
    db.execute(_ADD, (run, appender, data_def))


def get(db: Database, run: int, appender: str, data_def: str) -> Delivery | None:
    """The delivery of an output; None if it has a file."""
    return db.row(Delivery, _GET, (run, appender, data_def))


def withdraw(db: Database, run: int, jobs: str, kept: str) -> None:
    """Record which rows outputs may have got, before the rows of jobs are deleted except those of the kept dataDefs.

    Both are JSON lists of ids. Costs one small query where no output delivers.
    """
    if db.value("SELECT EXISTS (SELECT 1 FROM deliveries WHERE run = ?)", (run,)):
        db.execute(_WITHDRAW, (jobs, run, kept))


def list_withdrawals(db: Database, delivery: int, after: int, limit: int) -> list[Withdrawal]:
    """The next withdrawals of a delivery, in order of the deletions."""
    return db.rows(Withdrawal, _LIST, (delivery, after, limit))


def offer(db: Database, delivery: int, row: int) -> None:
    """Record that the rows up to this one are about to be sent."""
    db.execute("UPDATE deliveries SET offered = max(offered, ?) WHERE id = ?", (row, delivery))


def acknowledge(db: Database, delivery: int, *, row: int, withdrawal: int, rows: Sequence[int]) -> tuple[int, int]:
    """Record that the output got all changes up to these, `rows` among them, and delete the withdrawals.

    Returns the last row that it acknowledged, and how many rows it holds.
    """
    taken_back = int(db.value(_COUNTED, (delivery, withdrawal)))
    db.execute("DELETE FROM withdrawals WHERE delivery = ? AND id <= ?", (delivery, withdrawal))
    values = {"row": row, "withdrawal": withdrawal, "taken_back": taken_back, "delivery": delivery}
    cursor, held = db.one(_ACKNOWLEDGE, values | {"rows": orjson.dumps(rows).decode()}) or (0, 0)
    return int(cursor), int(held)
