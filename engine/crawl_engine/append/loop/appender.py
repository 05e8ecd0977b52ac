"""The appender's loop: follows the rows of a run and writes them to its outputs.

Every turn starts from the `outputs` table, never from memory: it cuts or rebuilds files that differ from their record,
writes and flushes the rows behind the smallest cursor, then moves all cursors in one fenced transaction. So the next
turn repairs whatever a failure or a kill at any point leaves.
"""

import errno
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from crawl_engine.append.formats.file_writer import inode_of
from crawl_engine.append.formats.writer import Batch, FileState, Writer
from crawl_engine.append.loop.chosen_outputs import ChosenOutputs
from crawl_engine.append.loop.only_new import OnlyNewFilter
from crawl_engine.append.loop.output_dir import OutputDir
from crawl_engine.append.loop.turns import (
    LoopContext,
    OutputFailed,
    OutputRetries,
    SupervisorGone,
    TurnResult,
    run_turns,
)
from crawl_engine.errors import CrawlError, StorageError
from crawl_engine.model.output_type import is_final_at_end, is_shared_file
from crawl_engine.model.run import RunState
from crawl_engine.store.db.connector import DatabaseBusy
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.output.outputs import Output
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.run import runs

BATCH_ROWS, FIRST_ROWS, MIN_ROWS = 5_000, 500, 16
BATCH_CHARACTERS = 8_000_000
"""Batches of large rows are smaller, so that memory stays flat."""
WHOLE_EVERY = 600.0
"""Seconds between two times that a whole output is written, while rows wait for it."""
REBUILD_EVERY, _REBUILD_FACTOR = 10.0, 10.0
"""Seconds between two rebuilds during a re-extraction; and of any output at least so many times what the last took."""
SMALL_PART, MANY_PARTS = 16_384, 16
"""Compressed parts of fewer bytes waste space; so many of them are worth another file."""
_WRITE_ERRORS = (OSError, DatabaseBusy, StorageError, OutputFailed)


class AppenderLoop:
    """Writes the rows of one run. Runs in one thread; no other code uses `db`."""

    def __init__(
        self,
        loop: LoopContext,
        folder: OutputDir,
        chosen: ChosenOutputs,
        *,
        whole_every: float = WHOLE_EVERY,
        rebuild_every: float = REBUILD_EVERY,
    ) -> None:
        """`chosen`: the outputs it writes.

        `whole_every`: seconds between two times that a whole output is written; `rebuild_every`: seconds after which
        one that grows is rebuilt, though its rows are still being replaced.
        """
        self._loop = loop
        self._folder = folder
        self._writers: dict[int, tuple[tuple[str, str, str, str], Writer]] = {}
        self._outputs = chosen
        self._retries = OutputRetries(loop, backoff=chosen.backs_off)
        self._data_def_names: dict[int, str] = {}
        self._suspect_outputs: set[int] = set()
        """Outputs whose files may have lost bytes, until the table says so."""
        self._only_new = OnlyNewFilter(loop.db, loop.run.seq, loop.data)
        self._batch_limit = FIRST_ROWS
        self._empty_range = (0, 0)
        self._pauses: dict[int, float] = {}
        """Until when an output is not rebuilt again; monotonic seconds."""
        self._dirty_since: dict[int, float] = {}
        self._whole_every = whole_every
        self._rebuild_every = rebuild_every
        self._whole_at: dict[int, float] = {}
        """When a whole output is written again if rows wait for it; monotonic seconds."""
        self._final: set[int] = set()
        """Outputs that were rebuilt at the end of the run."""
        self._small_parts: dict[int, int] = {}
        """By output, how many small compressed parts were appended to its file."""

    def run(self) -> None:
        """Write until drained or until the supervisor is gone. Raises Fenced if another appender has taken over."""
        run_turns(self, self._retries, self._loop)

    def run_turn(self) -> TurnResult:
        """Repair files that differ from their record, else write new rows and rebuild a dirty file.

        A dirty file gets new rows, too: a rebuild, which takes the replaced ones out, is rare.
        """
        declared = self._read_outputs()
        self._folder.repair()
        if not self._only_new.load_step(declared):
            return TurnResult.MORE
        for removed in set(self._writers) - {output.id for output in declared}:
            self._writers.pop(removed)[1].close()
        sound, broken = self._inspect_outputs(declared)
        damaged = [output for output in broken if not (self._is_whole(output) and self._is_pausing(output))]
        if unmarked := [output.id for output in damaged if self._is_whole(output) and not output.dirty]:
            self._mark_corrupt(unmarked)  # so it gets the rows that wait
            return TurnResult.MORE
        if damaged:
            self._rebuild_outputs(damaged)
            return TurnResult.MORE
        growing = [output for output in sound if not self._is_whole(output)]
        due = self._find_due(growing)
        turn = self._append_new_rows([output for output in growing if output not in due])
        if due:
            self._rebuild_outputs(due)
            return TurnResult.MORE
        if turn is not None:
            return turn
        newest = rows.last_id_of_all_runs(self._loop.db)
        late = [o for o in sound if self._is_whole(o) and self._is_late(o, newest)]
        if due := [output for output in late if self._is_whole_due(output)]:
            if clean := [output for output in due if not output.dirty]:
                self._mark_behind(clean)
            else:
                self._rebuild_outputs(due)
            return TurnResult.MORE
        if broken or late or any(output.dirty for output in growing) or self._retries.failing:
            return TurnResult.BLOCKED
        if self._loop.stop.draining and (loose := self._take_loose(sound)):
            self._rebuild_outputs(loose)
            return TurnResult.MORE
        self._retries.clear(declared)
        return TurnResult.IDLE

    def _find_due(self, growing: Sequence[Output]) -> list[Output]:
        """A dirty output to rebuild now. While its rows are replaced, that waits, but not long: readers need them."""
        dirty, now = [output for output in growing if output.dirty], time.monotonic()
        self._dirty_since = {output.id: self._dirty_since.get(output.id, now) for output in dirty}
        since = now
        if dirty and not self._loop.stop.draining and runs.is_reextracting(self._loop.db, self._loop.run.seq):
            since -= self._rebuild_every
        return [o for o in dirty if self._dirty_since[o.id] <= since and not self._is_pausing(o)][:1]

    def _take_loose(self, clean: Sequence[Output]) -> list[Output]:
        """Compressed files of many small parts, each once. A run that ends by itself writes them again."""
        counts = {output.id: self._small_parts.pop(output.id, 0) for output in clean}
        loose = [output for output in clean if counts[output.id] >= MANY_PARTS]
        is_at_end = bool(loose) and runs.get(self._loop.db, self._loop.run.seq).state is RunState.DRAINING
        return loose if is_at_end else []

    def _is_whole(self, output: Output) -> bool:
        return self._writer_for(output).is_whole

    def _is_pausing(self, output: Output) -> bool:
        """Whether it was rebuilt a short while ago: outputs that change all the time must not take all the time."""
        return not self._loop.stop.draining and time.monotonic() < self._pauses.get(output.id, 0.0)

    def _is_whole_due(self, output: Output) -> bool:
        """Whether it is written now: one that was never written in this run replaces that of an earlier run later."""
        now = time.monotonic()
        at = self._whole_at.setdefault(output.id, now + self._whole_every if output.inode is None else 0.0)
        return self._loop.stop.draining or (now >= at and not self._is_pausing(output))

    def _is_late(self, output: Output, newest: int) -> bool:
        """Whether a whole output lacks rows, or what is known at the end of its run alone."""
        is_final = not is_final_at_end(output.type) or not self._loop.stop.draining or output.id in self._final
        return output.dirty or output.cursor < newest or output.inode is None or not is_final

    def _mark_behind(self, due: Sequence[Output]) -> None:
        """Have whole outputs rebuilt that lack rows; the others wait for their next time."""
        with self._loop.transaction():
            last = rows.last_id_of_all_runs(self._loop.db)  # a run without rows has passed those of earlier ones
            for output in due:
                waiting = rows.list_by_data_def(self._loop.db, self._loop.run.seq, output.data_def, output.cursor, 1)
                if waiting or output.inode is None or is_final_at_end(output.type):
                    outputs.mark_corrupt(self._loop.db, output.id)
                else:
                    outputs.skip_other_rows(self._loop.db, output.id, last)
                    self._whole_at[output.id] = time.monotonic() + self._whole_every

    def close(self) -> None:
        """Close every file."""
        for _, writer in self._writers.values():
            writer.close()
        self._only_new.close()

    def _read_outputs(self) -> list[Output]:
        """The current outputs, after completing or dropping rebuilds that a crash interrupted."""
        if self._suspect_outputs:
            self._taint_suspects()
        with self._loop.db.snapshot():
            self._loop.check()
            declared = self._outputs.choose(outputs.list_outputs(self._loop.db, self._loop.run.seq))
        pending = [output for output in declared if output.pending]
        if not pending:
            return declared
        with self._loop.transaction():
            for output in pending:
                if output.pending and inode_of(output.path) == output.pending["inode"]:
                    outputs.finish_rebuild(self._loop.db, output.id, output.pending)
                else:
                    outputs.set_pending(self._loop.db, output.id, None)
            return self._outputs.choose(outputs.list_outputs(self._loop.db, self._loop.run.seq))

    def _inspect_outputs(self, declared: Sequence[Output]) -> tuple[list[Output], list[Output]]:
        """The outputs to append to, and those to rebuild first; recently failed ones are in neither list."""
        sound: list[Output] = []
        broken: list[Output] = []
        for output in declared:
            if self._retries.is_waiting(output):
                continue
            writer = self._writer_for(output)
            fresh = not writer.is_open
            try:
                whole = writer.restore(output) and not (fresh and output.dirty)
            except _WRITE_ERRORS as error:
                self._handle_failure(output, error)
            else:
                (sound if whole else broken).append(output)
        return sound, broken

    def _writer_for(self, output: Output) -> Writer:
        form = (output.type, output.path, output.data_def, str(output.settings))
        entry = self._writers.get(output.id)
        if entry is None or entry[0] != form:
            self._check_not_shared(output)
            if entry is not None:
                entry[1].close()
            entry = form, self._outputs.create_writer(output, run=self._loop.run.id, folder=self._folder.path)
            self._writers[output.id] = entry
        return entry[1]

    def _check_not_shared(self, output: Output) -> None:
        for id_, ((type_, path, data_def, _), _) in self._writers.items():
            separable = type_ == output.type and is_shared_file(type_) and data_def != output.data_def
            if id_ != output.id and path == output.path and not separable:
                raise CrawlError(
                    f"{path}: both {data_def} and {output.data_def} would be written to this file",
                    "Give each appender its own `path`, or leave `path` out.",
                )

    def _append_new_rows(self, sound: Sequence[Output]) -> TurnResult | None:
        """Write the next rows; None: no new rows."""
        if not sound:
            return None
        start, limit = min(output.cursor for output in sound), self._batch_limit
        batch = self._read_batch(start)
        if not batch:
            return None
        began, last = time.monotonic(), batch[-1][0]
        by_data_def: dict[str, list[tuple[int, str]]] = {}
        for id_, data_def, data in batch:
            by_data_def.setdefault(self._data_def_name(data_def), []).append((id_, data))
        moved: list[tuple[Output, FileState]] = []
        for output in sound:
            if output.cursor >= last:
                continue
            own_rows = by_data_def.get(output.data_def, [])
            if output.cursor > start:
                own_rows = [row for row in own_rows if row[0] > output.cursor]
            new = self._only_new.filter_batch(output, own_rows)
            try:
                state = self._writer_for(output).append(output, new) if new else FileState.recorded(output)
            except _WRITE_ERRORS as error:
                self._handle_failure(output, error)
            else:
                moved.append((output, state))
                if new and "compression" in output.settings and state.size - output.bytes < SMALL_PART:
                    self._small_parts[output.id] = self._small_parts.get(output.id, 0) + 1
        if moved:
            self._record_progress(moved, start, last, len(batch))
            self._retries.clear(output for output, _ in moved)
            self._count_written(moved, began)
        return TurnResult.MORE if len(batch) == limit else TurnResult.WROTE

    def _read_batch(self, start: int) -> list[tuple[int, int, str]]:
        """The rows behind `start`. Ranges without a row of this run are not searched twice."""
        newest = rows.last_id_of_all_runs(self._loop.db)
        empty_from, empty_to = self._empty_range
        if start == empty_from and newest <= empty_to:
            return []
        after = empty_to if start == empty_from else start
        batch = rows.list_after(self._loop.db, self._loop.run.seq, after, self._batch_limit)
        if not batch:
            self._empty_range = start, max(newest, start)
        self._adjust_limit(batch)
        return batch

    def _adjust_limit(self, batch: Sequence[tuple[int, int, str]]) -> None:
        if len(batch) == self._batch_limit:
            self._batch_limit = _fit_limit(len(batch), sum(len(data) for _, _, data in batch))

    def _data_def_name(self, data_def: int) -> str:
        if data_def not in self._data_def_names:
            self._data_def_names = rows.data_def_names(self._loop.db)
        return self._data_def_names[data_def]

    def _record_progress(self, moved: Sequence[tuple[Output, FileState]], start: int, last: int, count: int) -> None:
        with self._loop.transaction():
            # deleting a row that is ahead of the recorded cursor sets no mark, so deletions are counted here
            replaced = rows.count_between(self._loop.db, self._loop.run.seq, start, last) != count
            for output, state in moved:
                outputs.advance(
                    self._loop.db, output.id, cursor=last, size=state.size, rows=state.rows, inode=state.inode
                )
                if replaced and state.rows > output.rows:
                    outputs.mark_corrupt(self._loop.db, output.id)

    def _count_written(self, moved: Sequence[tuple[Output, FileState]], began: float) -> None:
        self._loop.monitor.flush_ms = (time.monotonic() - began) * 1000
        self._loop.monitor.rows += sum(state.rows - output.rows for output, state in moved)
        self._loop.monitor.bytes += sum(state.size - output.bytes for output, state in moved)

    def _rebuild_outputs(self, dirty: Sequence[Output]) -> None:
        """Write outputs again: write temporary files, record them, rename, record the result."""
        began, is_at_end = time.monotonic(), self._loop.stop.draining
        prepared: list[tuple[Output, dict[str, int]]] = []
        for output in self._with_new_rows(dirty):
            try:
                state = self._writer_for(output).prepare(self._batches_to_cursor(output))
            except _WRITE_ERRORS as error:
                self._handle_failure(output, error)
                continue
            record = {"inode": state.inode, "cursor": output.cursor, "bytes": state.size, "rows": state.rows}
            prepared.append((output, record | {"reasons": output.rebuild_marks}))
        took = time.monotonic() - began
        with self._loop.transaction():
            for output, record in prepared:
                outputs.set_pending(self._loop.db, output.id, record)
        swapped = []
        for output, record in prepared:
            try:
                identity = self._writer_for(output).swap_in()
            except _WRITE_ERRORS as error:
                self._handle_failure(output, error)
            else:
                swapped.append((output, record if identity is None else record | {"inode": identity}))
        with self._loop.transaction():
            for output, record in swapped:
                outputs.finish_rebuild(self._loop.db, output.id, record)
                self._loop.monitor.rows += max(0, record["rows"] - output.rows)
                self._loop.monitor.bytes += max(0, record["bytes"] - output.bytes)
        if is_at_end:
            self._final |= {output.id for output, _ in swapped}
        ended = time.monotonic()
        for output in dirty:
            self._small_parts.pop(output.id, None)
            self._dirty_since.pop(output.id, None)
            self._pauses[output.id] = ended + took * _REBUILD_FACTOR
            if self._is_whole(output):
                self._whole_at[output.id] = ended + self._whole_every
        if swapped:
            self._retries.clear(output for output, _ in swapped)

    def _with_new_rows(self, dirty: Sequence[Output]) -> list[Output]:
        """The outputs as they are now. The cursors of dirty ones are at the newest row: their files will hold it.

        The table gets this cursor when the file is in place. A row that is deleted meanwhile marks the output again.
        """
        with self._loop.db.snapshot():
            last = rows.last_id_of_all_runs(self._loop.db)  # a run without rows has passed those of earlier ones
            marks = outputs.get_rebuild_marks(self._loop.db, self._loop.run.seq)
        return [
            replace(output, cursor=max(output.cursor, last), rebuild_marks=marks[output.id])
            if marks.get(output.id)
            else output
            for output in dirty
        ]

    def _batches_to_cursor(self, output: Output) -> Iterator[Batch]:
        at, limit = 0, FIRST_ROWS
        while at < output.cursor:
            if self._loop.stop.supervisor_gone:
                raise SupervisorGone
            page = rows.list_by_data_def(self._loop.db, self._loop.run.seq, output.data_def, at, limit)
            batch = [row for row in page if row[0] <= output.cursor]
            if written := self._only_new.filter_batch(output, batch):
                yield written
            self._loop.monitor.tick()
            if len(batch) < limit:
                return
            at = batch[-1][0]
            limit = _fit_limit(len(batch), sum(len(data) for _, data in batch))

    def _handle_failure(self, output: Output, error: Exception) -> None:
        message = error.message if isinstance(error, CrawlError) else str(error)
        self._retries.add(output, Path(output.path).name, message)
        if output.id in self._writers:
            self._writers[output.id][1].close()
        if isinstance(error, OSError) and error.errno == errno.EIO:
            # the kernel may have dropped pages that it could not write, so all bytes since the last flush are in doubt
            self._suspect_outputs.add(output.id)
            self._taint_suspects()

    def _taint_suspects(self) -> None:
        self._mark_corrupt(self._suspect_outputs)
        self._suspect_outputs.clear()

    def _mark_corrupt(self, ids: Iterable[int]) -> None:
        with self._loop.transaction():
            for output in ids:
                outputs.mark_corrupt(self._loop.db, output)


def _fit_limit(count: int, characters: int) -> int:
    """The size of the next batch, in rows, if its rows are as large as these."""
    return max(MIN_ROWS, min(BATCH_ROWS, count * BATCH_CHARACTERS // max(1, characters)))
