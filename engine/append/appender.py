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

from engine.append.beat_thread import Pulse
from engine.append.files import inode_of
from engine.append.lifeline import Lifeline
from engine.append.only_new import Novelty
from engine.append.registry import writer_of
from engine.append.turns import CutOff, Turn
from engine.append.writer import Batch, Extent, Writer
from engine.errors import CrawlError, Fenced, StorageError
from engine.store.db.connector import Busy, Database
from engine.store.tables import nodes, outputs, rows, runs
from engine.store.tables.outputs import Output
from engine.store.tables.runs import Run

BATCH_ROWS, FIRST_ROWS, FEWEST_ROWS = 5_000, 500, 16
BATCH_CHARACTERS = 8_000_000
"""A batch of large rows is made smaller, so that memory stays flat."""
FLUSH_EVERY = 0.2
"""Seconds between two flushes while rows come in slowly."""
IDLE_LEAST, IDLE_MOST = 0.02, 0.1
RETRY = 1.0
"""Seconds before an output that failed is tried again."""
_CAN_FAIL = (OSError, Busy, StorageError)

_log = logging.getLogger("appender")


class Appender:
    """Writes the rows of one run. One thread; `db` is its own connection."""

    def __init__(self, db: Database, run: Run, epoch: int, folder: Path, pulse: Pulse, lifeline: Lifeline) -> None:
        self._db = db
        self._run = run
        self._epoch = epoch
        self._folder = folder
        self._pulse = pulse
        self._lifeline = lifeline
        self._writers: dict[int, tuple[tuple[object, ...], Writer]] = {}
        self._resting: dict[int, float] = {}
        self._names: dict[int, str] = {}
        self._doubtful: set[int] = set()
        """Outputs whose files may have lost bytes, where that is not yet written down."""
        self._novelty = Novelty(db, run.seq, folder.parent.parent)
        self._limit = FIRST_ROWS
        self._bare = (0, 0)
        self._rebuild_at = 0.0

    def work(self) -> None:
        """Write until drained or cut off. Raises Fenced where another one has taken over, StorageError, CrawlError."""
        idle = IDLE_LEAST
        while not self._lifeline.cut:
            self._pulse.tick()
            try:
                turn = self.turn()
            except Busy as problem:
                self._trouble(problem.what)
                self._pulse.pause(RETRY)
                continue
            except CutOff:
                return
            if not self._resting:
                self._pulse.trouble = ""
            if turn is Turn.IDLE and self._lifeline.draining:
                return
            self._pulse.state = "DONE" if turn is Turn.IDLE else "READY"
            if turn is Turn.IDLE or turn is Turn.HELD:
                self._pulse.pause(idle)
                idle = min(IDLE_MOST, idle * 1.2)
                continue
            idle = IDLE_LEAST
            if turn is Turn.WROTE and not self._lifeline.draining:
                self._pulse.pause(FLUSH_EVERY)

    def turn(self) -> Turn:
        """Mend what is not as recorded, else write new rows, else rebuild what is dirty."""
        declared = self._declared()
        if not self._novelty.learned(declared):
            return Turn.MORE
        held = self._held(declared)
        sound, broken = self._inspected([output for output in declared if output.id not in held])
        if broken:
            self._rebuild(broken)
            return Turn.MORE
        dirty = [output for output in sound if output.dirty]
        clean = [output for output in sound if not output.dirty]
        if clean and (turn := self._follow(clean)):
            return turn
        if dirty and (self._lifeline.draining or time.monotonic() >= self._rebuild_at):
            self._rebuild(dirty)
            return Turn.MORE
        return Turn.HELD if dirty or held or self._resting else Turn.IDLE

    def _held(self, declared: Sequence[Output]) -> set[int]:
        """Outputs left as they are while rows of theirs are replaced: a reader never sees half of the new ones."""
        for gone in set(self._writers) - {output.id for output in declared}:
            self._writers.pop(gone)[1].close()
        dirty = {output.id for output in declared if output.dirty}
        if not dirty or self._lifeline.draining or not runs.reextracting(self._db, self._run.seq):
            return set()
        return dirty

    def close(self) -> None:
        """Let go of every file."""
        for _, writer in self._writers.values():
            writer.close()
        self._novelty.close()

    def _declared(self) -> list[Output]:
        """The outputs as they stand, none with a rebuilt file of which it is open whether it took its name."""
        if self._doubtful:
            self._tell_doubts()
        with self._db.snapshot():
            self._fence()
            declared = outputs.listed(self._db, self._run.seq)
        half = [output for output in declared if output.pending]
        if not half:
            return declared
        with self._fenced():
            for output in half:
                if output.pending and inode_of(output.path) == output.pending["inode"]:
                    outputs.settle(self._db, output.id, output.pending)
                else:
                    outputs.pend(self._db, output.id, None)
            return outputs.listed(self._db, self._run.seq)

    def _inspected(self, declared: Sequence[Output]) -> tuple[list[Output], list[Output]]:
        """Those that may be appended to, and those to be rebuilt first; those that failed lately are in neither."""
        sound: list[Output] = []
        broken: list[Output] = []
        now = time.monotonic()
        for output in declared:
            if self._resting.get(output.id, 0.0) > now:
                continue
            self._resting.pop(output.id, None)
            writer = self._writer(output)
            fresh = not writer.is_open
            try:
                whole = writer.restore(output) and not (fresh and output.dirty)
            except _CAN_FAIL as problem:
                self._failed(output, problem)
            else:
                (sound if whole else broken).append(output)
        return sound, broken

    def _writer(self, output: Output) -> Writer:
        form = (output.type, output.path, output.data_def, str(output.settings))
        known = self._writers.get(output.id)
        if known is None or known[0] != form:
            self._refuse_shared(output)
            if known is not None:
                known[1].close()
            known = form, writer_of(output, run=self._run.id, folder=self._folder)
            self._writers[output.id] = known
        return known[1]

    def _refuse_shared(self, output: Output) -> None:
        for id_, ((type_, path, data_def, _), _) in self._writers.items():
            apart = type_ == output.type == "sqlite" and data_def != output.data_def
            if id_ != output.id and path == output.path and not apart:
                raise CrawlError(
                    f"{path}: both {data_def} and {output.data_def} are to be written to it",
                    "Give each appender a path of its own, or leave `path` out.",
                )

    def _follow(self, sound: Sequence[Output]) -> Turn | None:
        """Write the next rows; None: there are none."""
        start, limit = min(output.cursor for output in sound), self._limit
        batch = self._after(start)
        if not batch:
            return None
        reasons = outputs.reasons(self._db, self._run.seq)
        if any(reasons.get(output.id) != output.reasons for output in sound):
            return Turn.MORE  # rows were replaced since: what was read may hold some of the new ones
        began, last = time.monotonic(), batch[-1][0]
        sorted_out: dict[str, list[tuple[int, str]]] = {}
        for id_, data_def, data in batch:
            sorted_out.setdefault(self._name(data_def), []).append((id_, data))
        moved: list[tuple[Output, Extent]] = []
        for output in sound:
            if output.cursor >= last:
                continue
            wanted = sorted_out.get(output.data_def, [])
            if output.cursor > start:
                wanted = [row for row in wanted if row[0] > output.cursor]
            new = self._novelty.of_output(output, wanted)
            try:
                extent = self._writer(output).append(output, new) if new else _unmoved(output)
            except _CAN_FAIL as problem:
                self._failed(output, problem)
            else:
                moved.append((output, extent))
        if moved:
            self._record(moved, start, last, len(batch))
            self._count(moved, began)
        return Turn.MORE if len(batch) == limit else Turn.WROTE

    def _after(self, start: int) -> list[tuple[int, int, str]]:
        """Rows behind `start`. What was found to hold no row of this run is not searched again."""
        newest = rows.newest(self._db)
        bare_from, bare_to = self._bare
        if start == bare_from and newest <= bare_to:
            return []
        batch = rows.after(self._db, self._run.seq, bare_to if start == bare_from else start, self._limit)
        if not batch:
            self._bare = start, max(newest, start)
        self._resize(batch)
        return batch

    def _resize(self, batch: Sequence[tuple[int, int, str]]) -> None:
        if len(batch) == self._limit:
            self._limit = _fitting(len(batch), sum(len(data) for _, _, data in batch))

    def _name(self, data_def: int) -> str:
        if data_def not in self._names:
            self._names = rows.data_def_names(self._db)
        return self._names[data_def]

    def _record(self, moved: Sequence[tuple[Output, Extent]], start: int, last: int, count: int) -> None:
        with self._fenced():
            # a row deleted since it was read lay behind the cursor, where its deletion marks nothing
            replaced = rows.between(self._db, self._run.seq, start, last) != count
            for output, extent in moved:
                outputs.advance(
                    self._db, output.id, cursor=last, size=extent.size, rows=extent.rows, inode=extent.inode
                )
                if replaced and extent.rows > output.rows:
                    outputs.taint(self._db, output.id)

    def _count(self, moved: Sequence[tuple[Output, Extent]], began: float) -> None:
        self._pulse.flush_ms = (time.monotonic() - began) * 1000
        self._pulse.rows += sum(extent.rows - output.rows for output, extent in moved)
        self._pulse.bytes += sum(extent.size - output.bytes for output, extent in moved)

    def _rebuild(self, listed: Sequence[Output]) -> None:
        """Write outputs anew up to their cursors: beside, told, renamed, settled."""
        began = time.monotonic()
        prepared: list[tuple[Output, dict[str, int]]] = []
        for output in self._caught_up(listed):
            try:
                extent = self._writer(output).prepare(self._upto_cursor(output))
            except _CAN_FAIL as problem:
                self._failed(output, problem)
                continue
            told = {"inode": extent.inode, "cursor": output.cursor, "bytes": extent.size, "rows": extent.rows}
            prepared.append((output, told | {"reasons": output.reasons}))
        with self._fenced():
            for output, told in prepared:
                outputs.pend(self._db, output.id, told)
        adopted = []
        for output, told in prepared:
            try:
                self._writer(output).adopt()
            except OSError as problem:
                self._failed(output, problem)
            else:
                adopted.append((output, told))
        with self._fenced():
            for output, told in adopted:
                outputs.settle(self._db, output.id, told)
                self._pulse.rows += max(0, told["rows"] - output.rows)
                self._pulse.bytes += max(0, told["bytes"] - output.bytes)
        ended = time.monotonic()
        self._rebuild_at = ended + (ended - began)

    def _caught_up(self, listed: Sequence[Output]) -> list[Output]:
        """The outputs, those with rows replaced moved on to the newest row: a rebuilt file holds all of the new ones.

        The cursor goes first: from then on a row that is taken back marks the output once more.
        """
        if not any(output.dirty for output in listed):
            return list(listed)
        with self._fenced():
            last = rows.last(self._db, self._run.seq)
            moved = [(output, outputs.skip_to(self._db, output.id, last)) for output in listed]
        return [replace(output, cursor=at[0], reasons=at[1]) if at else output for output, at in moved]

    def _upto_cursor(self, output: Output) -> Iterator[Batch]:
        at, limit = 0, FIRST_ROWS
        while at < output.cursor:
            if self._lifeline.cut:
                raise CutOff
            found = rows.of_data_def(self._db, self._run.seq, output.data_def, at, limit)
            batch = [row for row in found if row[0] <= output.cursor]
            if written := self._novelty.of_output(output, batch):
                yield written
            self._pulse.tick()
            if len(batch) < limit:
                return
            at = batch[-1][0]
            limit = _fitting(len(batch), sum(len(data) for _, data in batch))

    def _failed(self, output: Output, problem: Exception) -> None:
        what = problem.what if isinstance(problem, CrawlError) else str(problem)
        self._trouble(f"{Path(output.path).name}: {what}")
        self._writer(output).close()
        self._resting[output.id] = time.monotonic() + RETRY
        if isinstance(problem, OSError) and problem.errno == errno.EIO:
            # what the kernel could not write it may have dropped: no byte since the last flush is known to be there
            self._doubtful.add(output.id)
            self._tell_doubts()

    def _tell_doubts(self) -> None:
        with self._fenced():
            for output in self._doubtful:
                outputs.taint(self._db, output)
        self._doubtful.clear()

    def _trouble(self, what: str) -> None:
        if what != self._pulse.trouble:
            _log.warning("%s; it is tried again every %g s", what, RETRY)
        self._pulse.trouble = what

    def _fence(self) -> None:
        if not nodes.appender_alive(self._db, self._epoch):
            raise Fenced(f"appender {self._epoch}: its supervisor has ended it", "Another one writes the rows.")

    @contextlib.contextmanager
    def _fenced(self) -> Iterator[None]:
        with self._db.transaction():
            self._fence()
            yield


def _fitting(count: int, characters: int) -> int:
    """How many rows the next batch may have, if they are as large as these."""
    return max(FEWEST_ROWS, min(BATCH_ROWS, count * BATCH_CHARACTERS // max(1, characters)))


def _unmoved(output: Output) -> Extent:
    return Extent(output.bytes, output.rows, output.inode or 0)
