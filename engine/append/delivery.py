"""Delivers the rows of one appender without a file: at least once, in order, and in batches that never change.

A batch is recorded, sent, and acknowledged; the cursor moves with the acknowledgement. After a crash in between it is
sent again. If rows of it were taken back meanwhile, the rest is sent under other keys, and the withdrawals follow.
"""

import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from engine.append.delivery_batch import ChangeReader, Changes, DeliveryBatch, build_batch
from engine.append.delivery_target import DeliveryFailed, DeliveryTarget
from engine.append.fence import Fence
from engine.append.only_new import OnlyNewFilter
from engine.append.patience import GIVE_UP_SECONDS
from engine.append.retries import OutputRetries
from engine.append.stop_signal import LoopControl
from engine.append.turn_result import ClassFailed, TurnResult
from engine.append.turns import run_turns
from engine.store.db.connector import Database
from engine.store.tables import deliveries, outputs
from engine.store.tables.deliveries import Delivery
from engine.store.tables.outputs import Output
from engine.store.tables.runs import Run

BATCH_ROWS, FIRST_ROWS = 100, 16
"""Changes of one batch, where the defs set no `batch`."""
BATCH_CHARACTERS = 4_000_000


class DeliveryLoop:
    """Delivers the outputs of one appender. Runs in one thread; no other code uses `db`."""

    def __init__(
        self, db: Database, run: Run, epoch: int, control: LoopControl, only_new: OnlyNewFilter, *, appender: str,
        create_target: Callable[[str, str, Sequence[Output]], DeliveryTarget],
        give_up_seconds: float = GIVE_UP_SECONDS,
    ) -> None:  # fmt: skip
        """`create_target`: of a type, for the outputs of the appender. `give_up_seconds`: as of `run_turns`."""
        self._db = db
        self._run = run
        self._fence = Fence(db, epoch)
        self._control = control
        self._only_new = only_new
        self._appender = appender
        self._create_target = create_target
        self._give_up_seconds = give_up_seconds
        self._target: DeliveryTarget | None = None
        self._form = ""
        self._reader = ChangeReader(db, run.seq)
        self._retries = OutputRetries(db, control, backoff=True)
        self._batches: dict[int, DeliveryBatch] = {}
        """By output: the batch that is recorded, and not acknowledged yet."""
        self._limits: dict[int, int] = {}

    def run(self) -> None:
        """Deliver until drained or stopped. Raises Fenced if another appender has taken over."""
        run_turns(self, self._retries, self._control, self._control, give_up_seconds=self._give_up_seconds)

    def run_turn(self) -> TurnResult:
        """Deliver one batch of each output. Raises DatabaseBusy, SupervisorGone, Fenced."""
        with self._db.snapshot():
            self._fence.check()
            listed = outputs.list_outputs(self._db, self._run.seq)
        declared = [output for output in listed if output.appender == self._appender and output.delivers]
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
            except (ClassFailed, DeliveryFailed) as error:
                delivered, retry_after = 0, 0.0
                if isinstance(error, DeliveryFailed):
                    delivered, retry_after = error.delivered, error.retry_after
                if delivered:
                    self._acknowledge(output, delivery, batch.first(delivered, delivery))
                name = f"{output.appender}/{output.data_def}"
                self._retries.add(output, name, error.message, retry_after=retry_after)
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
                return self._repeat(output, delivery, self._build(output, changes))
        limit = self._limits.get(output.id) or min(FIRST_ROWS, output.settings.get("batch") or BATCH_ROWS)
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
            deliveries.begin_batch(self._db, delivery, batch.record)
        self._batches[output.id] = batch
        self._limits[output.id] = _fit_limit(batch, limit, output.settings.get("batch") or BATCH_ROWS)
        return batch

    def _repeat(self, output: Output, delivery: Delivery, batch: DeliveryBatch) -> DeliveryBatch:
        """The recorded batch as it was sent; under another key if a row has other bytes now."""
        recorded = delivery.batch
        assert recorded is not None
        if recorded.content == batch.record.content:
            batch = replace(batch, key=recorded.key, record=recorded)
        elif recorded.content:
            key = f"{batch.key}-{batch.record.content[:8]}"
            batch = replace(batch, key=key, record=replace(batch.record, key=key))
            with self._fence.transaction():
                deliveries.begin_batch(self._db, delivery, batch.record)
        self._batches[output.id] = batch
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


def _fit_limit(batch: DeliveryBatch, limit: int, most: int) -> int:
    """The size of the next batch, in changes, if they are as large as these; at most `most`."""
    size = sum(map(len, batch.lines))
    return max(1, min(most, 2 * limit, len(batch.lines) * BATCH_CHARACTERS // max(1, size)))
