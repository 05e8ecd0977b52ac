"""Doorbells over Huey: a message says "some sequence has work" and nothing else.

The table `sequences` says which one waits longest, so one waiting message is enough. Losing or doubling it is harmless:
the jobs table decides, and the supervisor repairs. So doorbells are written without waiting for the disk, and the file
is recreated at every start.

Overridden methods of Huey with a leading underscore are its extension points for subclasses; it has no public ones for
these purposes. The requirement `huey>=3.5.4,<3.6` pins them, and `test_queue` fails where they are missing.
"""

import contextlib
import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from engine.errors import StorageError

_UNUSED = frozenset({"psycopg", "redis"} - sys.modules.keys())
"""Clients of other storages, which Huey imports where they are installed: 80 ms of each start."""
sys.modules.update(dict.fromkeys(_UNUSED))  # type: ignore[arg-type] # an import of None fails
try:
    from huey import Huey
    from huey.consumer import Consumer, Scheduler, Worker
    from huey.registry import Message
    from huey.serializer import Serializer
    from huey.storage import SqliteStorage, sqlite3
finally:
    for _name in _UNUSED:
        del sys.modules[_name]

QUEUE_FILE = "queue.db"
_NAME = "crawl"
_STAT_SECONDS = 0.5

_log = logging.getLogger(__name__)


class RingHandler(Protocol):
    """Answers doorbells, on the consumer's worker thread."""

    def should_dequeue(self) -> bool:
        """Whether to take a doorbell from the queue now."""
        ...

    def lease_rung(self) -> None:
        """Lease from the sequences that wait longest."""
        ...


class _JsonSerializer(Serializer):  # type: ignore[misc]
    """Messages as JSON: no data read from the file can execute."""

    def _serialize(self, data: Message) -> bytes:
        return json.dumps(list(data), separators=(",", ":")).encode()

    def _deserialize(self, data: bytes) -> Message:
        return Message(*json.loads(bytes(data)))


class _Storage(SqliteStorage):  # type: ignore[misc]
    """Huey's own table, read only while `gate` allows it, and reopened where the file was replaced or damaged."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.gate: Callable[[], bool] = _always_open
        self.inode: int | None = None
        self._checked_at = 0.0
        super().__init__(*args, strict_fifo=True, timeout=5, **kwargs)

    def _create_connection(self) -> Any:
        connection = super()._create_connection()
        connection.execute("PRAGMA synchronous = NORMAL")  # the option `fsync` knows FULL and OFF alone
        self.inode = _inode(self.filename)
        return connection

    def dequeue(self) -> Any:
        if not self.gate():
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

    def peek_many(self, keys: Any) -> dict[str, Any]:  # noqa: ARG002
        """No task is ever revoked. Without this each doorbell reads the revoked ones, and fails on a damaged file."""
        return {}

    def delete_data(self, key: Any) -> bool:  # noqa: ARG002
        """Do nothing: results are not kept."""
        return False

    def _close_if_replaced(self) -> None:
        now = time.monotonic()
        if now - self._checked_at >= _STAT_SECONDS:
            self._checked_at = now
            if _inode(self.filename) != self.inode:
                self.close()

    def _reopen(self, error: Exception) -> None:
        _log.warning("queue.db: %s; reopening it", error)
        with contextlib.suppress(sqlite3.Error):
            self.close()
        self._conn = None  # `close` leaves it set where closing a damaged file fails


class _Worker(Worker):  # type: ignore[misc]
    """Wakes at once when this process rings or frees slots, instead of at the next poll."""

    delay: float

    def sleep(self) -> None:
        self.delay = min(self.delay, self.max_delay)
        if self.huey.wakeup.wait(self.delay):
            self.huey.wakeup.clear()
            self.delay = self.default_delay
        else:
            self.delay *= self.backoff


class _IdleScheduler(Scheduler):  # type: ignore[misc]
    """Never polls: deadlines are in our own tables, and Huey's schedule is empty."""

    def loop(self, now: Any = None) -> None:  # noqa: ARG002
        self.stop_flag.wait(1)


class _Consumer(Consumer):  # type: ignore[misc]
    worker_class = _Worker
    scheduler_class = _IdleScheduler

    def _set_signal_handlers(self) -> None:
        """Do nothing: the node handles its signals itself."""


class Doorbells:
    """The queue of one data dir, as one process sees it."""

    def __init__(self, folder: Path, *, wakeup: threading.Event | None = None) -> None:
        """`wakeup`: when set, the consumer polls at once. Raises StorageError where the file cannot be created."""
        self._path = folder / QUEUE_FILE
        try:
            self._huey = Huey(
                _NAME,
                results=False,
                serializer=_JsonSerializer(),
                storage_class=_Storage,
                filename=str(self._path),
            )
            self._path.chmod(0o600)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"{self._path}: {error}", "Free some disk space, or delete the file.") from error
        self._wakeup = self._huey.wakeup = wakeup or threading.Event()
        self._crawl_slice = self._huey.task(name="crawl_slice")(self._answer)
        self._handler: RingHandler | None = None
        self._consumer: _Consumer | None = None
        self._stopped = False

    def ring(self) -> None:
        """Ring after sequences were marked as rung. A failure is logged, not raised: lost doorbells are repaired.

        A doorbell that waits already is enough: it is answered later, by a lease that sees them.
        """
        if not self.has_pending():
            try:
                self._crawl_slice()
            except sqlite3.Error as error:
                _log.warning("doorbell lost: %s", error)
        self.wake()

    def _answer(self) -> None:
        """Run the Huey task."""
        if self._handler is not None:
            self._handler.lease_rung()

    def wake(self) -> None:
        """Have the consumer poll at once."""
        self._wakeup.set()

    def consume(self, handler: RingHandler) -> None:
        """Answer doorbells until `stop`, on the main thread."""
        self._handler = handler
        self._huey.storage.gate = handler.should_dequeue
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
        """End `consume`. Safe from a signal handler, before and after it runs."""
        self._stopped = True
        if self._consumer is not None:
            self._consumer.stop_flag.set()
        self.wake()

    def has_pending(self) -> bool | None:
        """Whether a doorbell waits: one index lookup. None where the file is missing, replaced or damaged."""
        try:
            pending = bool(self._huey.storage.sql("SELECT 1 FROM task LIMIT 1", results=True))
        except sqlite3.Error:
            return None
        return pending if _inode(str(self._path)) == self._huey.storage.inode else None

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(sqlite3.Error):
            self._huey.storage.close()


def discard_queue(folder: Path) -> None:
    """Delete the queue; processes that have it open switch to the next one. A directory of that name is moved aside."""
    for suffix in ("", "-wal", "-shm"):
        path = folder / (QUEUE_FILE + suffix)
        if path.is_dir():
            path.rename(path.with_name(f"{path.name}.aside-{time.time_ns()}"))
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _always_open() -> bool:
    return True


def _inode(path: str) -> int | None:
    try:
        return Path(path).stat().st_ino
    except OSError:
        return None
