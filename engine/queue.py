"""Doorbells over Huey: a message says "sequence S has work" and nothing else. The only room that knows Huey.

Losing or doubling a ring is harmless: the jobs table decides, and the supervisor repairs. So rings are written
without waiting for the disk, and the file is thrown away at every start.
"""

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from huey import Huey
from huey.consumer import Consumer, Scheduler, Worker
from huey.registry import Message
from huey.serializer import Serializer
from huey.storage import SqliteStorage, sqlite3

from engine.errors import StorageError

QUEUE_FILE = "queue.db"
_NAME = "crawl"
_STAT_SECONDS = 0.5
_MAX_RINGS = 16
"""Rings one node takes from the queue at once, at most: the others are for the other nodes."""

_log = logging.getLogger(__name__)


class _JsonSerializer(Serializer):  # type: ignore[misc]
    """Messages as JSON: nothing that is read from the file can run."""

    def _serialize(self, data: Message) -> bytes:
        return json.dumps(list(data), separators=(",", ":")).encode()

    def _deserialize(self, data: bytes) -> Message:
        return Message(*json.loads(bytes(data)))


class _Storage(SqliteStorage):  # type: ignore[misc]
    """Huey's own table, asked only while `gate` says so, and opened anew where the file was replaced or damaged."""

    def __init__(self, *args: Any, gate: Callable[[], bool], **kwargs: Any) -> None:
        self._gate = gate
        self._inode: int | None = None
        self._checked_at = 0.0
        super().__init__(*args, strict_fifo=True, timeout=5, **kwargs)

    def _create_connection(self) -> Any:
        connection = super()._create_connection()
        connection.execute("PRAGMA synchronous = NORMAL")
        self._inode = _inode(self.filename)
        return connection

    def dequeue(self) -> Any:
        if not self._gate():
            return None
        self._close_if_replaced()
        try:
            return super().dequeue()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                self._reopen(error)
        except sqlite3.DatabaseError as error:
            self._reopen(error)
        return None

    def pop_many(self, limit: int) -> list[bytes]:
        """The messages that come next, taken from the queue in one transaction; at most `limit`. None on trouble."""
        try:
            return self._pop_many(limit)
        except sqlite3.Error as error:
            self._reopen(error)
            return []

    def _pop_many(self, limit: int) -> list[bytes]:
        if limit <= 0 or not self.sql("select 1 from task where queue = ? limit 1", (self.name,), results=True):
            return []
        with self.db(commit=True) as cursor:
            cursor.execute("select id, data from task where queue = ? order by id limit ?", (self.name, limit))
            found = cursor.fetchall()
            marks = ",".join("?" * len(found))
            cursor.execute(f"delete from task where id in ({marks})", [id_ for id_, _ in found])
        return [data for _, data in found]

    def enqueue_all(self, messages: list[bytes]) -> None:
        """Append messages in one transaction."""
        with self.db(commit=True) as cursor:
            rows = [(self.name, self.to_blob(message)) for message in messages]
            cursor.executemany("insert into task (queue, data, priority) values (?, ?, 0)", rows)

    def _close_if_replaced(self) -> None:
        now = time.monotonic()
        if now - self._checked_at >= _STAT_SECONDS:
            self._checked_at = now
            if _inode(self.filename) != self._inode:
                self.close()

    def _reopen(self, error: Exception) -> None:
        _log.warning("queue.db: %s; opening it anew", error)
        with contextlib.suppress(sqlite3.Error):
            self.close()
        self._conn = None


class _Worker(Worker):  # type: ignore[misc]
    """Wakes at once when this process rings or has room again, instead of at the next poll."""

    delay: float

    def sleep(self) -> None:
        self.delay = min(self.delay, self.max_delay)
        if self.huey.wake_event.wait(self.delay):
            self.huey.wake_event.clear()
            self.delay = self.default_delay
        else:
            self.delay *= self.backoff


class _IdleScheduler(Scheduler):  # type: ignore[misc]
    """Deadlines stand in our tables; Huey's schedule is not used, and so not polled."""

    def loop(self, now: Any = None) -> None:  # noqa: ARG002
        self.stop_flag.wait(1)


class _Consumer(Consumer):  # type: ignore[misc]
    worker_class = _Worker
    scheduler_class = _IdleScheduler

    def _set_signal_handlers(self) -> None:
        """Signals are the node's own affair."""


class Doorbells:
    """The queue of one data dir, as one process sees it."""

    def __init__(
        self,
        folder: Path,
        *,
        on_slice: Callable[[list[int]], None] | None = None,
        gate: Callable[[], bool] = lambda: True,
        capacity: Callable[[], int] = lambda: 1,
    ) -> None:
        """`on_slice` answers rings, given the sequences' ids; `gate` is asked before a message is taken.

        `room` says how many rings may be answered together: those that wait are taken at once, so that a crawl of
        many hosts does not pay for a transaction a page. Raises StorageError where the file cannot be made.
        """
        self._path = folder / QUEUE_FILE
        try:
            self._huey = Huey(
                _NAME,
                results=False,
                serializer=_JsonSerializer(),
                storage_class=_Storage,
                filename=str(self._path),
                gate=gate,
            )
            self._path.chmod(0o600)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"{self._path}: {error}", "Free some space, or take the file away.") from error
        self._huey.wake_event = threading.Event()

        @self._huey.task(name="crawl_slice")  # type: ignore[untyped-decorator]
        def crawl_slice(sequence: int) -> None:
            if on_slice is not None:
                more = self._huey.storage.pop_many(min(capacity(), _MAX_RINGS) - 1)
                on_slice(list(dict.fromkeys([sequence, *self._decode_sequences(more)])))

        self._crawl_slice = crawl_slice
        self._consumer: _Consumer | None = None
        self._stopped = False

    def ring(self, sequences: Iterable[int]) -> None:
        """Say that sequences have work. A failure is logged, not raised: lost rings are repaired."""
        try:
            messages = [self._huey.serialize_task(self._crawl_slice.s(sequence)) for sequence in sequences]
            if messages:
                self._huey.storage.enqueue_all(messages)
        except sqlite3.Error as error:
            _log.warning("rings lost: %s", error)
        self.wake()

    def _decode_sequences(self, messages: list[bytes]) -> Iterator[int]:
        for message in messages:
            try:
                yield int(self._huey.serializer.deserialize(message).args[0])
            except (ValueError, TypeError, IndexError):
                _log.warning("a message in queue.db is no ring: %r", bytes(message)[:80])

    def wake(self) -> None:
        """Look at the queue now."""
        self._huey.wake_event.set()

    def consume(self) -> None:
        """Answer rings until `stop`, on the main thread."""
        self._consumer = _Consumer(
            self._huey,
            workers=1,
            worker_type="thread",
            periodic=False,
            initial_delay=0.005,
            backoff=2,
            max_delay=0.02,
            shutdown_timeout=2,
        )
        if not self._stopped:
            self._consumer.run()
            self._consumer.stop(graceful=True)

    def stop(self) -> None:
        """End `consume`; safe from a signal handler, before and after it runs."""
        self._stopped = True
        if self._consumer is not None:
            self._consumer.stop_flag.set()
        self.wake()

    def has_pending(self) -> bool | None:
        """Whether a ring waits: one look at an index. None where the file is gone, is another one, or is damaged."""
        try:
            found = bool(self._huey.storage.sql("SELECT 1 FROM task LIMIT 1", results=True))
        except sqlite3.Error:
            return None
        return found if _inode(str(self._path)) == self._huey.storage._inode else None

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(sqlite3.Error):
            self._huey.storage.close()


def discard_queue(folder: Path) -> None:
    """Throw the queue away; who has it open finds the next one by itself. A directory of that name is put aside."""
    for suffix in ("", "-wal", "-shm"):
        path = folder / (QUEUE_FILE + suffix)
        if path.is_dir():
            path.rename(path.with_name(f"{path.name}.aside-{time.time_ns()}"))
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _inode(path: str) -> int | None:
    try:
        return Path(path).stat().st_ino
    except OSError:
        return None
