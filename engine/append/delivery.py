"""Delivers the rows of one users' Appender: at least once, in order of the changes, and in batches that never change.

A batch is recorded, sent, and acknowledged; the cursor moves with the acknowledgement. After a crash in between it is
sent again. If rows of it were taken back meanwhile, the rest is sent under other keys, and the withdrawals follow.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from engine.append.chosen_outputs import users_kind
from engine.append.class_process import ClassFailed
from engine.append.delivery_batch import ChangeReader, Changes, DeliveryBatch, build_batch
from engine.append.fence import Fence
from engine.append.only_new import OnlyNewFilter
from engine.append.retries import OutputRetries
from engine.append.stop_signal import LoopControl
from engine.append.turn_result import TurnResult
from engine.append.turns import run_turns
from engine.store.db.connector import Database
from engine.store.tables import deliveries, outputs
from engine.store.tables.deliveries import Delivery
from engine.store.tables.outputs import Output
from engine.store.tables.runs import Run

BATCH_ROWS, FIRST_ROWS = 100, 16
"""Changes of one batch: the limit of a class is for so many."""
BATCH_CHARACTERS = 4_000_000


class DeliveryTarget(Protocol):
    """What rows are delivered to."""

    def deliver(self, batch: DeliveryBatch, data_def: str) -> None:
        """Return when the changes of the batch are durable. Raises ClassFailed, SupervisorGone."""

    def close(self) -> None:
        """Release it; may be called again."""


class DeliveryLoop:
    """Delivers the outputs of one appender. Runs in one thread; no other code uses `db`."""

    def __init__(
        self, db: Database, run: Run, epoch: int, control: LoopControl, only_new: OnlyNewFilter, *, appender: str,
        create_target: Callable[[str, str, Sequence[Output]], DeliveryTarget],
    ) -> None:  # fmt: skip
        """`create_target`: of a type, for the outputs of the appender."""
        self._db = db
        self._run = run
        self._fence = Fence(db, epoch)
        self._control = control
        self._only_new = only_new
        self._appender = appender
        self._create_target = create_target
        self._target: DeliveryTarget | None = None
        self._form = ""
        self._reader = ChangeReader(db, run.seq)
        self._retries = OutputRetries(db, control, backoff=True)
        self._batches: dict[int, DeliveryBatch] = {}
        """By output: the batch that is recorded, and not acknowledged yet."""
        self._limits: dict[int, int] = {}

    def run(self) -> None:
        """Deliver until drained or stopped. Raises Fenced if another appender has taken over."""
        run_turns(self, self._retries, self._control, self._control)

    def run_turn(self) -> TurnResult:
        """Deliver one batch of each output. Raises DatabaseBusy, SupervisorGone, Fenced."""
        with self._db.snapshot():
            self._fence.check()
            listed = outputs.list_outputs(self._db, self._run.seq)
        declared = [o for o in listed if o.appender == self._appender and users_kind(o) == "appender"]
        if not self._only_new.load_step(declared):
            return TurnResult.MORE
        delivered = [
            output for output in declared if not self._retries.is_waiting(output) and self._deliver(output, declared)
        ]
        if delivered:
            return TurnResult.MORE
        if self._retries.failing:
            return TurnResult.BLOCKED
        self._retries.clear(declared)
        return TurnResult.IDLE

    def close(self) -> None:
        """Release the target."""
        if self._target is not None:
            self._target.close()
            self._target = None
        self._only_new.close()

    def _deliver(self, output: Output, declared: Sequence[Output]) -> bool:
        """Deliver the next batch of an output; returns whether there was one."""
        delivery = deliveries.get(self._db, self._run.seq, output.appender, output.data_def)
        assert delivery is not None, "declared with the output"
        batch = self._batches.get(output.id) or self._begin_batch(output, delivery)
        if batch is None:
            return False
        began = time.monotonic()
        if batch.lines:
            try:
                self._target_for(output, declared).deliver(batch, output.data_def)
            except ClassFailed as error:
                self._retries.add(output, f"{output.appender}/{output.data_def}", error.message)
                return False
        self._acknowledge(output, delivery, batch)
        self._retries.clear([output])
        self._control.flush_ms = (time.monotonic() - began) * 1000
        return True

    def _begin_batch(self, output: Output, delivery: Delivery) -> DeliveryBatch | None:
        """Make and record the next batch; None: there is nothing to deliver, or rows were taken back meanwhile."""
        recorded = delivery.batch
        if recorded is not None:
            changes = self._reader.read_recorded(delivery, output.data_def)
            if changes is not None:
                batch = self._build(output, changes)
                self._batches[output.id] = batch
                return batch
        limit = self._limits.get(output.id, FIRST_ROWS)
        changes = None
        if recorded is not None:  # its key must not get other content: the next batch ends before what is missing
            taken_back = deliveries.first_taken_back(
                self._db, delivery.id, recorded.withdrawal, (delivery.cursor, recorded.row)
            )
            size = max(limit, recorded.rows + 1)
            changes = self._reader.read_next(delivery, output.data_def, size, before=taken_back)
            if not changes.rows and not changes.withdrawals:
                changes = None
        changes = changes or self._reader.read_next(delivery, output.data_def, limit)
        batch = self._build(output, changes)
        if not batch.lines and recorded is None:
            return batch if changes.record.row > delivery.cursor else None
        with self._fence.transaction():
            if not self._reader.are_complete(delivery, changes):
                return None
            deliveries.begin_batch(self._db, delivery, changes.record)
        self._batches[output.id] = batch
        self._limits[output.id] = _fit_limit(batch, limit)
        return batch

    def _build(self, output: Output, changes: Changes) -> DeliveryBatch:
        return build_batch(self._run.id, output, changes, self._only_new.filter_batch(output, changes.rows))

    def _acknowledge(self, output: Output, delivery: Delivery, batch: DeliveryBatch) -> None:
        end, size = batch.record, sum(map(len, batch.lines))
        with self._fence.transaction():
            total = deliveries.acknowledge(
                self._db, delivery.id, row=end.row, withdrawal=end.withdrawal, rows=batch.rows
            )
            outputs.advance(self._db, output.id, cursor=end.row, size=output.bytes + size, rows=total, inode=None)
        self._batches.pop(output.id, None)
        self._control.rows += batch.rows
        self._control.bytes += size

    def _target_for(self, output: Output, declared: Sequence[Output]) -> DeliveryTarget:
        """The target; another one if its class, its code or its options changed."""
        form = str([(o.type, o.data_def, o.settings) for o in declared])
        if self._target is None or self._form != form:
            if self._target is not None:
                self._target.close()
            self._target, self._form = self._create_target(output.type, self._appender, declared), form
        return self._target


def _fit_limit(batch: DeliveryBatch, limit: int) -> int:
    """The size of the next batch, in changes, if they are as large as these."""
    size = sum(map(len, batch.lines))
    return max(1, min(BATCH_ROWS, 2 * limit, len(batch.lines) * BATCH_CHARACTERS // max(1, size)))
