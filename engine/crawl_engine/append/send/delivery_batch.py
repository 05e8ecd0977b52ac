"""Reads the next changes of an output without a file as a batch: rows and withdrawals, in order."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from crawl_engine.append.formats.row_json import to_one_line
from crawl_engine.append.formats.writer import Batch
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.output import deliveries
from crawl_engine.store.tables.output.deliveries import Delivery, Withdrawal
from crawl_engine.store.tables.row import rows


class Change(NamedTuple):
    """One line of a batch."""

    row: int
    line: bytes
    withdrawal: int = 0
    """The number of the withdrawal; 0: the row was not taken back."""
    data: str = ""
    """The row as it is stored; empty: it was taken back."""


class DeliveryBatch(Struct, frozen=True):
    """Changes of one dataDef, and the position behind them."""

    changes: Sequence[Change]
    row: int
    """The last row that it covers; of any dataDef."""
    withdrawal: int
    """The last withdrawal that it covers."""

    @property
    def lines(self) -> list[bytes]:
        """The JSON object of each change."""
        return [change.line for change in self.changes]

    @property
    def rows(self) -> list[int]:
        """The ids of its rows."""
        return [change.row for change in self.changes if not change.withdrawal]

    def first(self, count: int) -> "DeliveryBatch":
        """The first changes, and the position behind them; 0: it does not move."""
        changes = self.changes[:count]
        row = max((change.row for change in changes if not change.withdrawal), default=0)
        return DeliveryBatch(changes, row, max((change.withdrawal for change in changes), default=0))


class DeliveryTarget(Protocol):
    """A receiver of batches. Used by one thread."""

    def deliver(self, batch: DeliveryBatch, data_def: str) -> None:
        """Return when the changes of the batch are durable. Raises OutputFailed, SupervisorGone."""

    def close(self) -> None:
        """Release it; may be called again."""


class StoredChanges(NamedTuple):
    """Rows and withdrawals of one dataDef as they are stored, and the position behind them."""

    rows: Batch
    withdrawals: Sequence[Withdrawal]
    row: int
    withdrawal: int


def read_changes(db: Database, run: int, delivery: Delivery, data_def: str, limit: int) -> StoredChanges:
    """At most `limit` rows and as many withdrawals behind the acknowledged position. Call it in a transaction."""
    own: Batch = rows.list_by_data_def(db, run, data_def, delivery.cursor, limit)
    withdrawals = deliveries.list_withdrawals(db, delivery.id, delivery.withdrawal, limit)
    end = max(delivery.cursor, rows.last_id(db, run))
    more_rows = len(own) == limit
    if more_rows:
        end = own[-1][0]
    if len(withdrawals) == limit and withdrawals[-1].newest < end:  # others may come before the later rows
        end = max(delivery.cursor, withdrawals[-1].newest)
        own = [row for row in own if row[0] <= end]
    if more_rows:  # others may come before the later withdrawals
        withdrawals = [w for w in withdrawals if w.newest <= end]
    return StoredChanges(own, withdrawals, end, withdrawals[-1].id if withdrawals else delivery.withdrawal)


def build_batch(run: str, data_def: str, stored: StoredChanges, sent: Batch) -> DeliveryBatch:
    """The batch of changes. `sent`: the rows that the output gets."""
    head = f'"run":{json.dumps(run)},"dataDef":{json.dumps(data_def)}'
    changes: list[Change] = []
    for change in _in_order(sent, stored.withdrawals):
        if isinstance(change, Withdrawal):
            line = f'{{"id":{change.row},{head},"deleted":true}}'.encode()
            changes.append(Change(change.row, line, change.id))
        else:
            row = to_one_line(change[1])
            line = f'{{"id":{change[0]},{head},"row":{row}}}'.encode("utf-8", "replace")
            changes.append(Change(change[0], line, data=row))
    return DeliveryBatch(changes, stored.row, stored.withdrawal)


def _in_order(sent: Batch, withdrawals: Sequence[Withdrawal]) -> Iterator[tuple[int, str] | Withdrawal]:
    """Rows and withdrawals in order of the changes: a withdrawal behind the rows that existed when it was made."""
    left = iter(withdrawals)
    withdrawal = next(left, None)
    for row in sent:
        while withdrawal is not None and withdrawal.newest < row[0]:
            yield withdrawal
            withdrawal = next(left, None)
        yield row
    if withdrawal is not None:
        yield withdrawal
    yield from left
