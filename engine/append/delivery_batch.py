"""The next changes of an output without a file, in order; a recorded batch is made again with the same content."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from engine.append.row_json import to_one_line
from engine.append.writer import Batch
from engine.store.db.connector import Database
from engine.store.tables import deliveries, rows
from engine.store.tables.deliveries import BatchRecord, Delivery, Withdrawal
from engine.store.tables.outputs import Output


class Changes(Struct, frozen=True, kw_only=True):
    """Rows and withdrawals of one dataDef, as far as they are read; `record` says where they end."""

    rows: Batch
    withdrawals: Sequence[Withdrawal]
    record: BatchRecord
    rows_between: int
    """How many rows of the run there are up to the last of these: fewer later, and some were taken back."""


class Change(NamedTuple):
    """One line of a batch."""

    row: int
    withdrawal: int = 0
    """The number of the withdrawal; 0: the row is there."""

    def __str__(self) -> str:
        return f"d{self.withdrawal}" if self.withdrawal else str(self.row)


class DeliveryBatch(Struct, frozen=True, kw_only=True):
    """A batch as it is sent. Its content never changes: a batch with other content has another key."""

    key: str
    """`RUN-FIRST-LAST`: each is the id of a row, or `d` and the number of a withdrawal."""
    lines: Sequence[bytes]
    changes: Sequence[Change]
    """What is in each line."""
    record: BatchRecord

    @property
    def rows(self) -> int:
        """How many of the lines are rows."""
        return sum(1 for change in self.changes if not change.withdrawal)

    def first(self, count: int, delivery: Delivery) -> "DeliveryBatch":
        """The first changes of this batch of a delivery, as if they were all."""
        changes = self.changes[:count]
        record = replace(
            self.record,
            row=max([change.row for change in changes if not change.withdrawal], default=delivery.cursor),
            withdrawal=max([change.withdrawal for change in changes] + [delivery.withdrawal]),
        )
        return replace(self, lines=self.lines[:count], changes=changes, record=record)


class ChangeReader:
    """Reads the changes of the outputs of one run."""

    def __init__(self, db: Database, run: int) -> None:
        self._db = db
        self._run = run

    def read_next(self, delivery: Delivery, data_def: str, limit: int, before: int = 0) -> Changes:
        """At most `limit` changes behind what was acknowledged; with `before`, those in front of this row."""
        with self._db.snapshot():
            own: Batch = rows.list_by_data_def(self._db, self._run, data_def, delivery.cursor, limit)
            withdrawals = deliveries.list_withdrawals(self._db, delivery.id, delivery.withdrawal, limit)
            end = max(delivery.cursor, rows.last_id(self._db, self._run))
            more_rows = len(own) == limit
            if more_rows:
                end = own[-1][0]
            if len(withdrawals) == limit and withdrawals[-1].newest < end:  # others may come before the later rows
                end = max(delivery.cursor, withdrawals[-1].newest)
                own = [row for row in own if row[0] <= end]
            if more_rows:  # others may come before the later withdrawals
                withdrawals = [w for w in withdrawals if w.newest <= end]
            if before:
                own = [row for row in own if row[0] < before]
                withdrawals = [w for w in withdrawals if w.newest < before]
                end = min(end, before - 1)
            return self._changes(delivery, own, withdrawals, end)

    def read_recorded(self, delivery: Delivery, data_def: str) -> Changes | None:
        """The changes of the recorded batch; None if some of its rows were taken back."""
        record = delivery.batch
        assert record is not None
        with self._db.snapshot():
            listed: Batch = rows.list_by_data_def(self._db, self._run, data_def, delivery.cursor, record.rows)
            own = [row for row in listed if row[0] <= record.row]
            if len(own) < record.rows:
                return None
            left = record.withdrawal - delivery.withdrawal
            withdrawals = deliveries.list_withdrawals(self._db, delivery.id, delivery.withdrawal, left)
            withdrawals = [w for w in withdrawals if w.id <= record.withdrawal]
            return self._changes(delivery, own, withdrawals, record.row)

    def are_complete(self, delivery: Delivery, changes: Changes) -> bool:
        """Whether no row was taken back since the changes were read; asked in the transaction that records them."""
        return self._count(delivery, changes.rows) == changes.rows_between

    def _changes(self, delivery: Delivery, own: Batch, withdrawals: Sequence[Withdrawal], end: int) -> Changes:
        last = withdrawals[-1].id if withdrawals else delivery.withdrawal
        record = BatchRecord(row=end, withdrawal=last, rows=len(own))
        return Changes(rows=own, withdrawals=withdrawals, record=record, rows_between=self._count(delivery, own))

    def _count(self, delivery: Delivery, own: Batch) -> int:
        return rows.count_between(self._db, self._run, delivery.cursor, own[-1][0]) if own else 0


def build_batch(run: str, output: Output, changes: Changes, new_rows: Batch) -> DeliveryBatch:
    """The batch of changes. `new_rows`: those of the rows that the output gets."""
    head = f'"run":{json.dumps(run)},"dataDef":{json.dumps(output.data_def)}'
    lines: list[bytes] = []
    listed: list[Change] = []
    for change in _in_order(new_rows, changes.withdrawals):
        if isinstance(change, Withdrawal):
            listed.append(Change(change.row, change.id))
            lines.append(f'{{"id":{change.row},{head},"deleted":true}}'.encode())
        else:
            listed.append(Change(change[0]))
            row = to_one_line(change[1])
            lines.append(f'{{"id":{change[0]},{head},"row":{row}}}'.encode("utf-8", "replace"))
    key = f"{run}-{listed[0]}-{listed[-1]}" if listed else ""
    content = hashlib.blake2b(b"\n".join(lines), digest_size=16).hexdigest()
    record = replace(changes.record, key=key, content=content)
    return DeliveryBatch(key=key, lines=lines, changes=listed, record=record)


def _in_order(new_rows: Batch, withdrawals: Sequence[Withdrawal]) -> Iterator[tuple[int, str] | Withdrawal]:
    """Rows and withdrawals in order of the changes: a withdrawal behind the rows that existed when it was made."""
    left = iter(withdrawals)
    withdrawal = next(left, None)
    for row in new_rows:
        while withdrawal is not None and withdrawal.newest < row[0]:
            yield withdrawal
            withdrawal = next(left, None)
        yield row
    while withdrawal is not None:
        yield withdrawal
        withdrawal = next(left, None)
