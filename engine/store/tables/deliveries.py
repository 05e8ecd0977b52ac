"""Writes the tables `deliveries` and `withdrawals`: what the appenders without a file got, and what was taken back.

The changes of an output are its rows by id and, between them, its withdrawals: a withdrawal comes after the rows that
existed when it was made. A batch is recorded before it is sent, so that it is sent again with the same content.
"""

import orjson
from msgspec import Struct
from msgspec.structs import asdict

from engine.store.db.connector import Database

_COLUMNS = "id, cursor, withdrawal, rows, batch"
_GET = f"SELECT {_COLUMNS} FROM deliveries WHERE run = ? AND appender = ? AND data_def = ?"
_ADD = "INSERT INTO deliveries (run, appender, data_def) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_EXISTS = "SELECT EXISTS (SELECT 1 FROM deliveries WHERE run = ?)"
_WITHDRAW = """
INSERT INTO withdrawals (delivery, row, newest, counted)
SELECT v.id, r.id, (SELECT seq FROM sqlite_sequence WHERE name = 'rows'),
    r.id <= max(v.cursor, coalesce(v.batch ->> 'row', 0))
FROM json_each(?) j CROSS JOIN rows r ON r.job = j.value JOIN data_defs d ON d.id = r.data_def
JOIN deliveries v ON v.run = ? AND v.data_def = d.name AND v.offered >= r.id
WHERE r.data_def NOT IN (SELECT value FROM json_each(?)) ORDER BY r.id
"""
_LIST = "SELECT id, row, newest FROM withdrawals WHERE delivery = ? AND id > ? ORDER BY id LIMIT +?"
_FIRST_TAKEN_BACK = "SELECT min(row) FROM withdrawals WHERE delivery = ? AND id > ? AND row > ? AND row <= ?"
_BEGIN = "UPDATE deliveries SET batch = ?, offered = max(offered, ?) WHERE id = ?"
_DISCOUNT = "UPDATE withdrawals SET counted = 0 WHERE delivery = ? AND row > ? AND row <= ?"
_COUNTED = "SELECT total(counted) FROM withdrawals WHERE delivery = ? AND id <= ?"
_DELETE = "DELETE FROM withdrawals WHERE delivery = ? AND id <= ?"
_ACKNOWLEDGE = """
UPDATE deliveries SET cursor = ?, withdrawal = ?, rows = max(0, rows + ?), batch = NULL WHERE id = ? RETURNING rows
"""


class BatchRecord(Struct, frozen=True, kw_only=True):
    """A batch as it was recorded before it was sent: the changes behind the delivery's cursors up to these ends."""

    row: int
    """The last row that it covers; of any dataDef."""
    withdrawal: int
    """The last withdrawal that it covers."""
    rows: int
    """How many rows of the dataDef there were. Fewer now: some were taken back, and it cannot be sent again."""
    key: str = ""
    """Under which it is sent."""
    content: str = ""
    """A hash of its bytes; empty in a record of an earlier program."""


class Delivery(Struct, frozen=True, kw_only=True):
    """What an output without a file got so far."""

    id: int
    cursor: int
    withdrawal: int
    rows: int
    batch: BatchRecord | None


class Withdrawal(Struct, frozen=True):
    """A deleted row that an output may have got; `newest`: the newest row of all when it was deleted."""

    id: int
    row: int
    newest: int


def ensure(db: Database, run: int, appender: str, data_def: str) -> Delivery:
    """The delivery of an output, which begins with the first row of the run if there is none."""
    db.execute(_ADD, (run, appender, data_def))
    delivery = get(db, run, appender, data_def)
    assert delivery is not None
    return delivery


def get(db: Database, run: int, appender: str, data_def: str) -> Delivery | None:
    """The delivery of an output; None: it has none."""
    row = db.one(_GET, (run, appender, data_def))
    if row is None:
        return None
    id_, cursor, withdrawal, rows, batch = row
    record = BatchRecord(**orjson.loads(batch)) if batch else None
    return Delivery(id=int(id_), cursor=int(cursor), withdrawal=int(withdrawal), rows=int(rows), batch=record)


def withdraw(db: Database, run: int, jobs: str, kept: str) -> None:
    """Record which rows outputs may have got, before the rows of jobs are deleted except those of the kept dataDefs.

    Both are JSON lists of ids. Costs one small query where no output delivers.
    """
    if db.value(_EXISTS, (run,)):
        db.execute(_WITHDRAW, (jobs, run, kept))


def list_withdrawals(db: Database, delivery: int, after: int, limit: int) -> list[Withdrawal]:
    """The next withdrawals of a delivery, in order of the deletions."""
    return [Withdrawal(*map(int, row)) for row in db.all(_LIST, (delivery, after, limit))]


def first_taken_back(db: Database, delivery: int, after: int, rows: tuple[int, int]) -> int:
    """The lowest row above `rows[0]` and not above `rows[1]` that withdrawals after this one took back; 0: none."""
    return int(db.value(_FIRST_TAKEN_BACK, (delivery, after, *rows)) or 0)


def begin_batch(db: Database, delivery: Delivery, batch: BatchRecord | None) -> None:
    """Record a batch that is about to be sent, in place of one that cannot be sent again; None: there is no other."""
    if delivery.batch is not None:  # those of its rows that were taken back will never be acknowledged
        db.execute(_DISCOUNT, (delivery.id, delivery.cursor, delivery.batch.row))
    text = None if batch is None else orjson.dumps(asdict(batch)).decode()
    db.execute(_BEGIN, (text, 0 if batch is None else batch.row, delivery.id))


def acknowledge(db: Database, delivery: int, *, row: int, withdrawal: int, rows: int) -> int:
    """Record that the output got all changes up to these, `rows` rows among them; returns its rows.

    The withdrawals are no longer needed, and deleted.
    """
    taken_back = int(db.value(_COUNTED, (delivery, withdrawal)))
    db.execute(_DELETE, (delivery, withdrawal))
    return int(db.value(_ACKNOWLEDGE, (row, withdrawal, rows - taken_back, delivery)))
