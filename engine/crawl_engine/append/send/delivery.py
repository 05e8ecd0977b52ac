"""Delivers the rows of one appender without a file: each change at least once, in order.

The ids of rows are recorded as offered before they are sent; the position moves with the acknowledgement. After a crash
in between, the changes behind the position are read again: batches may end elsewhere, and rows that were taken back
meanwhile follow as deleted.
"""

import time
from collections.abc import Callable, Sequence

from crawl_engine.append.loop.only_new import OnlyNewFilter
from crawl_engine.append.loop.turns import LoopContext, OutputFailed, OutputRetries, TurnResult, run_turns
from crawl_engine.append.send.delivery_batch import DeliveryBatch, DeliveryTarget, build_batch, read_changes
from crawl_engine.store.tables.output import deliveries, outputs
from crawl_engine.store.tables.output.deliveries import Delivery
from crawl_engine.store.tables.output.outputs import Output

BATCH_ROWS, FIRST_ROWS = 100, 16
"""Changes of one batch, where the defs set no `batch`."""
BATCH_CHARACTERS = 4_000_000


class DeliveryLoop:
    """Delivers the outputs of one appender. Runs in one thread; no other code uses `db`."""

    def __init__(
        self, loop: LoopContext, appender: str, create_target: Callable[[str, str, Sequence[Output]], DeliveryTarget]
    ) -> None:
        """`create_target`: of a type, for the outputs of the appender."""
        self._loop = loop
        self._only_new = OnlyNewFilter(loop.db, loop.run.seq, loop.data)
        self._appender = appender
        self._create_target = create_target
        self._target: DeliveryTarget | None = None
        self._form = ""
        self._retries = OutputRetries(loop, backoff=True)
        self._batches: dict[int, DeliveryBatch] = {}
        """By output: the batch that is offered, and not acknowledged yet."""
        self._limits: dict[int, int] = {}

    def run(self) -> None:
        """Deliver until drained or stopped. Raises Fenced if another appender has taken over."""
        run_turns(self, self._retries, self._loop)

    def run_turn(self) -> TurnResult:
        """Deliver one batch of each output. Raises DatabaseBusy, SupervisorGone, Fenced."""
        with self._loop.db.snapshot():
            self._loop.check()
            listed = outputs.list_outputs(self._loop.db, self._loop.run.seq)
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
        delivery = deliveries.get(self._loop.db, self._loop.run.seq, output.appender, output.data_def)
        assert delivery is not None, "declared with the output"
        batch = self._batches.get(output.id) or self._offer_batch(output, delivery)
        if batch is None:
            return False
        began = time.monotonic()
        if batch.changes:
            try:
                self._target_for(output, declared).deliver(batch, output.data_def)
            except OutputFailed as error:
                if error.delivered:
                    self._acknowledge(output, delivery, batch.first(error.delivered))
                name = f"{output.appender}/{output.data_def}"
                self._retries.add(output, name, error.message, retry_after=error.retry_after, starting=error.starting)
                return False
        self._acknowledge(output, delivery, batch)
        self._retries.clear([output])
        self._loop.monitor.flush_ms = (time.monotonic() - began) * 1000
        return True

    def _offer_batch(self, output: Output, delivery: Delivery) -> DeliveryBatch | None:
        """Read the next batch, and record its last row as offered; None if every change is acknowledged."""
        with self._loop.db.snapshot():
            waiting = read_changes(self._loop.db, self._loop.run.seq, delivery, output.data_def, 1)
        if not waiting.rows and not waiting.withdrawals:
            return DeliveryBatch([], waiting.row, waiting.withdrawal) if waiting.row > delivery.cursor else None
        most = output.settings.get("batch") or BATCH_ROWS
        limit = self._limits.get(output.id) or min(FIRST_ROWS, most)
        with self._loop.transaction():  # no row may be deleted between reading and recording it
            stored = read_changes(self._loop.db, self._loop.run.seq, delivery, output.data_def, limit)
            if stored.rows:
                deliveries.offer(self._loop.db, delivery.id, stored.rows[-1][0])
        sent = self._only_new.filter_batch(output, stored.rows)
        batch = build_batch(self._loop.run.id, output.data_def, stored, sent)
        if batch.changes:
            self._batches[output.id] = batch
            self._limits[output.id] = _fit_limit(batch, limit, most)
        return batch

    def _acknowledge(self, output: Output, delivery: Delivery, batch: DeliveryBatch) -> None:
        size = sum(map(len, batch.lines))
        with self._loop.transaction():
            cursor, held = deliveries.acknowledge(
                self._loop.db, delivery.id, row=batch.row, withdrawal=batch.withdrawal, rows=batch.rows
            )
            outputs.advance(self._loop.db, output.id, cursor=cursor, size=output.bytes + size, rows=held, inode=None)
        self._batches.pop(output.id, None)
        self._loop.monitor.rows += len(batch.rows)
        self._loop.monitor.bytes += size

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
    return max(1, min(most, 2 * limit, len(batch.changes) * BATCH_CHARACTERS // size))
