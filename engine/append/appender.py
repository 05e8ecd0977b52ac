"""The appender's loop: follows the rows of a run and writes them to its outputs. Knows no format and no def.

Every turn starts from the `outputs` table, never from memory: a file that is not what its record says is cut or
rebuilt, rows behind the smallest cursor are written and flushed, then all cursors move in one fenced transaction.
So whatever fails, and wherever the process is killed, the next turn mends it.
"""

import contextlib
import errno
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from engine.append.beat_thread import AppenderHeartbeat
from engine.append.files import inode_of
from engine.append.lifeline import Lifeline
from engine.append.only_new import OnlyNewFilter
from engine.append.registry import create_writer
from engine.append.turns import SupervisorGone, TurnResult
from engine.append.writer import Batch, FileState, Writer
from engine.errors import CrawlError, Fenced, StorageError
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.tables import nodes, outputs, rows, runs
from engine.store.tables.outputs import Output
from engine.store.tables.runs import Run

BATCH_ROWS, FIRST_ROWS, MIN_ROWS = 5_000, 500, 16
BATCH_CHARACTERS = 8_000_000
"""A batch of large rows is made smaller, so that memory stays flat."""
FLUSH_SECONDS = 0.2
"""Seconds between two flushes while rows come in slowly."""
IDLE_MIN_SECONDS, IDLE_MAX_SECONDS = 0.02, 0.1
RETRY_SECONDS = 1.0
"""Seconds before an output that failed is tried again."""
_WRITE_ERRORS = (OSError, DatabaseBusy, StorageError)

_log = logging.getLogger("appender")


class AppenderLoop:
    """Writes the rows of one run. One thread; `db` is its own connection."""

    def __init__(
        self, db: Database, run: Run, epoch: int, folder: Path, pulse: AppenderHeartbeat, lifeline: Lifeline
    ) -> None:
        self._db = db
        self._run = run
        self._epoch = epoch
        self._folder = folder
        self._heartbeat = pulse
        self._lifeline = lifeline
        self._writers: dict[int, tuple[tuple[object, ...], Writer]] = {}
        self._retry_at: dict[int, float] = {}
        self._data_def_names: dict[int, str] = {}
        self._suspect_outputs: set[int] = set()
        """Outputs whose files may have lost bytes, where that is not yet written down."""
        self._only_new = OnlyNewFilter(db, run.seq, folder.parent.parent)
        self._batch_limit = FIRST_ROWS
        self._empty_range = (0, 0)
        self._rebuild_at = 0.0

    def run(self) -> None:
        """Write until drained or cut off. Raises Fenced where another one has taken over, StorageError, CrawlError."""
        idle = IDLE_MIN_SECONDS
        while not self._lifeline.supervisor_gone:
            self._heartbeat.tick()
            try:
                turn = self.run_turn()
            except DatabaseBusy as problem:
                self._report_problem(problem.message)
                self._heartbeat.pause(RETRY_SECONDS)
                continue
            except SupervisorGone:
                return
            if not self._retry_at:
                self._heartbeat.problem = ""
            if turn is TurnResult.IDLE and self._lifeline.draining:
                return
            self._heartbeat.state = "DONE" if turn is TurnResult.IDLE else "READY"
            if turn is TurnResult.IDLE or turn is TurnResult.BLOCKED:
                self._heartbeat.pause(idle)
                idle = min(IDLE_MAX_SECONDS, idle * 1.2)
                continue
            idle = IDLE_MIN_SECONDS
            if turn is TurnResult.WROTE and not self._lifeline.draining:
                self._heartbeat.pause(FLUSH_SECONDS)

    def run_turn(self) -> TurnResult:
        """Mend what is not as recorded, else write new rows, else rebuild what is dirty."""
        declared = self._read_outputs()
        if not self._only_new.load_step(declared):
            return TurnResult.MORE
        held = self._deferred_outputs(declared)
        sound, broken = self._inspect_outputs([output for output in declared if output.id not in held])
        if broken:
            self._rebuild_outputs(broken)
            return TurnResult.MORE
        dirty = [output for output in sound if output.dirty]
        clean = [output for output in sound if not output.dirty]
        if clean and (turn := self._append_new_rows(clean)):
            return turn
        if dirty and (self._lifeline.draining or time.monotonic() >= self._rebuild_at):
            self._rebuild_outputs(dirty)
            return TurnResult.MORE
        return TurnResult.BLOCKED if dirty or held or self._retry_at else TurnResult.IDLE

    def _deferred_outputs(self, declared: Sequence[Output]) -> set[int]:
        """Outputs left as they are while rows of theirs are replaced: a reader never sees half of the new ones."""
        for gone in set(self._writers) - {output.id for output in declared}:
            self._writers.pop(gone)[1].close()
        dirty = {output.id for output in declared if output.dirty}
        if not dirty or self._lifeline.draining or not runs.is_reextracting(self._db, self._run.seq):
            return set()
        return dirty

    def close(self) -> None:
        """Let go of every file."""
        for _, writer in self._writers.values():
            writer.close()
        self._only_new.close()

    def _read_outputs(self) -> list[Output]:
        """The outputs as they stand, none with a rebuilt file of which it is open whether it took its name."""
        if self._suspect_outputs:
            self._taint_suspects()
        with self._db.snapshot():
            self._check_fence()
            declared = outputs.list_outputs(self._db, self._run.seq)
        half = [output for output in declared if output.pending]
        if not half:
            return declared
        with self._fenced_transaction():
            for output in half:
                if output.pending and inode_of(output.path) == output.pending["inode"]:
                    outputs.finish_rebuild(self._db, output.id, output.pending)
                else:
                    outputs.set_pending(self._db, output.id, None)
            return outputs.list_outputs(self._db, self._run.seq)

    def _inspect_outputs(self, declared: Sequence[Output]) -> tuple[list[Output], list[Output]]:
        """Those that may be appended to, and those to be rebuilt first; those that failed lately are in neither."""
        sound: list[Output] = []
        broken: list[Output] = []
        now = time.monotonic()
        for output in declared:
            if self._retry_at.get(output.id, 0.0) > now:
                continue
            self._retry_at.pop(output.id, None)
            writer = self._writer_for(output)
            fresh = not writer.is_open
            try:
                whole = writer.restore(output) and not (fresh and output.dirty)
            except _WRITE_ERRORS as problem:
                self._handle_failure(output, problem)
            else:
                (sound if whole else broken).append(output)
        return sound, broken

    def _writer_for(self, output: Output) -> Writer:
        form = (output.type, output.path, output.data_def, str(output.settings))
        known = self._writers.get(output.id)
        if known is None or known[0] != form:
            self._check_not_shared(output)
            if known is not None:
                known[1].close()
            known = form, create_writer(output, run=self._run.id, folder=self._folder)
            self._writers[output.id] = known
        return known[1]

    def _check_not_shared(self, output: Output) -> None:
        for id_, ((type_, path, data_def, _), _) in self._writers.items():
            apart = type_ == output.type == "sqlite" and data_def != output.data_def
            if id_ != output.id and path == output.path and not apart:
                raise CrawlError(
                    f"{path}: both {data_def} and {output.data_def} are to be written to it",
                    "Give each appender a path of its own, or leave `path` out.",
                )

    def _append_new_rows(self, sound: Sequence[Output]) -> TurnResult | None:
        """Write the next rows; None: there are none."""
        start, limit = min(output.cursor for output in sound), self._batch_limit
        batch = self._read_batch(start)
        if not batch:
            return None
        reasons = outputs.get_rebuild_marks(self._db, self._run.seq)
        if any(reasons.get(output.id) != output.rebuild_marks for output in sound):
            return TurnResult.MORE  # rows were replaced since: what was read may hold some of the new ones
        began, last = time.monotonic(), batch[-1][0]
        sorted_out: dict[str, list[tuple[int, str]]] = {}
        for id_, data_def, data in batch:
            sorted_out.setdefault(self._data_def_name(data_def), []).append((id_, data))
        moved: list[tuple[Output, FileState]] = []
        for output in sound:
            if output.cursor >= last:
                continue
            wanted = sorted_out.get(output.data_def, [])
            if output.cursor > start:
                wanted = [row for row in wanted if row[0] > output.cursor]
            new = self._only_new.filter_batch(output, wanted)
            try:
                extent = self._writer_for(output).append(output, new) if new else _recorded_state(output)
            except _WRITE_ERRORS as problem:
                self._handle_failure(output, problem)
            else:
                moved.append((output, extent))
        if moved:
            self._record_progress(moved, start, last, len(batch))
            self._count_written(moved, began)
        return TurnResult.MORE if len(batch) == limit else TurnResult.WROTE

    def _read_batch(self, start: int) -> list[tuple[int, int, str]]:
        """Rows behind `start`. What was found to hold no row of this run is not searched again."""
        newest = rows.last_id_of_all_runs(self._db)
        bare_from, bare_to = self._empty_range
        if start == bare_from and newest <= bare_to:
            return []
        batch = rows.list_after(self._db, self._run.seq, bare_to if start == bare_from else start, self._batch_limit)
        if not batch:
            self._empty_range = start, max(newest, start)
        self._adjust_limit(batch)
        return batch

    def _adjust_limit(self, batch: Sequence[tuple[int, int, str]]) -> None:
        if len(batch) == self._batch_limit:
            self._batch_limit = _fit_limit(len(batch), sum(len(data) for _, _, data in batch))

    def _data_def_name(self, data_def: int) -> str:
        if data_def not in self._data_def_names:
            self._data_def_names = rows.data_def_names(self._db)
        return self._data_def_names[data_def]

    def _record_progress(self, moved: Sequence[tuple[Output, FileState]], start: int, last: int, count: int) -> None:
        with self._fenced_transaction():
            # a row deleted since it was read lay behind the cursor, where its deletion marks nothing
            replaced = rows.count_between(self._db, self._run.seq, start, last) != count
            for output, extent in moved:
                outputs.advance(
                    self._db, output.id, cursor=last, size=extent.size, rows=extent.rows, inode=extent.inode
                )
                if replaced and extent.rows > output.rows:
                    outputs.mark_corrupt(self._db, output.id)

    def _count_written(self, moved: Sequence[tuple[Output, FileState]], began: float) -> None:
        self._heartbeat.flush_ms = (time.monotonic() - began) * 1000
        self._heartbeat.rows += sum(extent.rows - output.rows for output, extent in moved)
        self._heartbeat.bytes += sum(extent.size - output.bytes for output, extent in moved)

    def _rebuild_outputs(self, listed: Sequence[Output]) -> None:
        """Write outputs anew up to their cursors: beside, told, renamed, settled."""
        began = time.monotonic()
        prepared: list[tuple[Output, dict[str, int]]] = []
        for output in self._advance_cursors(listed):
            try:
                extent = self._writer_for(output).prepare(self._batches_to_cursor(output))
            except _WRITE_ERRORS as problem:
                self._handle_failure(output, problem)
                continue
            told = {"inode": extent.inode, "cursor": output.cursor, "bytes": extent.size, "rows": extent.rows}
            prepared.append((output, told | {"reasons": output.rebuild_marks}))
        with self._fenced_transaction():
            for output, told in prepared:
                outputs.set_pending(self._db, output.id, told)
        adopted = []
        for output, told in prepared:
            try:
                self._writer_for(output).swap_in()
            except OSError as problem:
                self._handle_failure(output, problem)
            else:
                adopted.append((output, told))
        with self._fenced_transaction():
            for output, told in adopted:
                outputs.finish_rebuild(self._db, output.id, told)
                self._heartbeat.rows += max(0, told["rows"] - output.rows)
                self._heartbeat.bytes += max(0, told["bytes"] - output.bytes)
        ended = time.monotonic()
        self._rebuild_at = ended + (ended - began)

    def _advance_cursors(self, listed: Sequence[Output]) -> list[Output]:
        """The outputs, those with rows replaced moved on to the newest row: a rebuilt file holds all of the new ones.

        The cursor goes first: from then on a row that is taken back marks the output once more.
        """
        if not any(output.dirty for output in listed):
            return list(listed)
        with self._fenced_transaction():
            last = rows.last_id(self._db, self._run.seq)
            moved = [(output, outputs.begin_rebuild(self._db, output.id, last)) for output in listed]
        return [replace(output, cursor=at[0], rebuild_marks=at[1]) if at else output for output, at in moved]

    def _batches_to_cursor(self, output: Output) -> Iterator[Batch]:
        at, limit = 0, FIRST_ROWS
        while at < output.cursor:
            if self._lifeline.supervisor_gone:
                raise SupervisorGone
            found = rows.list_by_data_def(self._db, self._run.seq, output.data_def, at, limit)
            batch = [row for row in found if row[0] <= output.cursor]
            if written := self._only_new.filter_batch(output, batch):
                yield written
            self._heartbeat.tick()
            if len(batch) < limit:
                return
            at = batch[-1][0]
            limit = _fit_limit(len(batch), sum(len(data) for _, data in batch))

    def _handle_failure(self, output: Output, problem: Exception) -> None:
        what = problem.message if isinstance(problem, CrawlError) else str(problem)
        self._report_problem(f"{Path(output.path).name}: {what}")
        self._writer_for(output).close()
        self._retry_at[output.id] = time.monotonic() + RETRY_SECONDS
        if isinstance(problem, OSError) and problem.errno == errno.EIO:
            # what the kernel could not write it may have dropped: no byte since the last flush is known to be there
            self._suspect_outputs.add(output.id)
            self._taint_suspects()

    def _taint_suspects(self) -> None:
        with self._fenced_transaction():
            for output in self._suspect_outputs:
                outputs.mark_corrupt(self._db, output)
        self._suspect_outputs.clear()

    def _report_problem(self, what: str) -> None:
        if what != self._heartbeat.problem:
            _log.warning("%s; it is tried again every %g s", what, RETRY_SECONDS)
        self._heartbeat.problem = what

    def _check_fence(self) -> None:
        if not nodes.is_appender_alive(self._db, self._epoch):
            raise Fenced(f"appender {self._epoch}: its supervisor has ended it", "Another one writes the rows.")

    @contextlib.contextmanager
    def _fenced_transaction(self) -> Iterator[None]:
        with self._db.transaction():
            self._check_fence()
            yield


def _fit_limit(count: int, characters: int) -> int:
    """How many rows the next batch may have, if they are as large as these."""
    return max(MIN_ROWS, min(BATCH_ROWS, count * BATCH_CHARACTERS // max(1, characters)))


def _recorded_state(output: Output) -> FileState:
    return FileState(output.bytes, output.rows, output.inode or 0)
