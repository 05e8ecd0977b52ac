"""Doorbells over Huey: a message says "some sequence has work" and nothing else.

The table `sequences` says which one waits longest, so one waiting message is enough. Losing or doubling it is harmless:
the jobs table decides, and the supervisor repairs. So doorbells are written without waiting for the disk. On SQLite
their file is recreated at every start; on PostgreSQL they lie in an unlogged table of the crawl's schema, with a
queue for each machine.

Overridden methods of Huey with a leading underscore are its extension points for subclasses; it has no public ones for
these purposes. The requirement `huey>=3.5.4,<3.6` pins them, and `test_queue` fails where they are missing.
"""

import contextlib
import json
import logging
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from crawl_engine.errors import StorageError
from crawl_engine.runtime.private_file import create_missing

_UNUSED = frozenset({"psycopg", "redis"} - sys.modules.keys())
"""Clients of other storages, which Huey imports where they are installed: 80 ms of each start.

Huey uses psycopg only to connect; `_PostgresStorage` does that itself.
"""
sys.modules.update(dict.fromkeys(_UNUSED))  # type: ignore[arg-type] # an import of None fails
try:
    from huey import Huey
    from huey import storage as huey_storage
    from huey.consumer import Consumer, Scheduler, Worker
    from huey.registry import Message
    from huey.serializer import Serializer
    from huey.storage import PostgresStorage, SqliteStorage, sqlite3
finally:
    for _name in _UNUSED:
        del sys.modules[_name]

QUEUE_FILE = "queue.db"
_NAME = "crawl"
_STAT_SECONDS = 0.5
_RECONNECT_SECONDS = 1.0
_LINK: Mapping[str, Any] = {
    "connect_timeout": 2,
    "tcp_user_timeout": 5_000,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
}
"""Of libpq: after 5 seconds without an answer of the network a connection ends."""

_log = logging.getLogger(__name__)


class RingHandler(Protocol):
    """Answers doorbells, on the consumer's worker thread."""

    def should_dequeue(self) -> bool:
        """Whether to take a doorbell from the queue now."""
        ...

    def lease_rung(self) -> None:
        """Lease from the sequences that wait longest."""
        ...


class Server(Protocol):
    """Where the doorbells of several machines are."""

    @property
    def url(self) -> str:
        """Of the PostgreSQL database."""
        ...

    @property
    def project(self) -> str:
        """The schema of the crawl."""
        ...


class _JsonSerializer(Serializer):  # type: ignore[misc]
    """Messages as JSON: no data read from the file can execute."""

    def _serialize(self, data: Message) -> bytes:
        return json.dumps(list(data), separators=(",", ":")).encode()

    def _deserialize(self, data: bytes) -> Message:
        return Message(*json.loads(bytes(data)))


class _WithoutResults:
    """What both storages leave out of Huey's."""

    def peek_many(self, keys: Any) -> dict[str, Any]:  # noqa: ARG002
        """No task is ever revoked. Without this each doorbell reads the revoked ones, and fails on a damaged file."""
        return {}

    def delete_data(self, key: Any) -> bool:  # noqa: ARG002
        """Do nothing: results are not kept."""
        return False


class _Storage(_WithoutResults, SqliteStorage):  # type: ignore[misc]
    """Huey's own table, read only while `gate` allows it, and reopened where the file was replaced or damaged."""

    errors = sqlite3.Error
    longest_poll = 1.0

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

    def has_pending(self) -> bool | None:
        pending = bool(self.sql("SELECT 1 FROM task LIMIT 1", results=True))
        return pending if _inode(self.filename) == self.inode else None

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


class _PostgresStorage(_WithoutResults, PostgresStorage):  # type: ignore[misc]
    """Huey's own statements on a table of the crawl's schema; a lost connection heals at a later poll."""

    longest_poll = 5.0
    """In delays of the consumer, at random from one on: machines do not poll in step, and less often than on SQLite."""

    def __init__(self, name: str, server: Server, folder: Path) -> None:
        import psycopg  # an extra

        huey_storage.psycopg = psycopg  # else Huey says that it is not installed
        self.errors = psycopg.Error
        self.gate: Callable[[], bool] = _always_open
        self._url = server.url
        self._retry_at = 0.0
        self._is_lost = False
        # each machine has a queue of its own: it may lease from other hosts than the others
        super().__init__(f"{name} {socket.gethostname()} {folder}", blocking=False, create_tables=False)
        self.table_task = f'"{server.project}".doorbells'

    def _create_connection(self) -> Any:
        import psycopg

        if time.monotonic() < self._retry_at:
            raise psycopg.OperationalError("no connection; the next attempt is soon")
        try:
            connection = psycopg.connect(self._url, autocommit=True, prepare_threshold=None, **_LINK)
        finally:
            self._retry_at = time.monotonic() + _RECONNECT_SECONDS
        self._is_lost = False
        return connection

    def enqueue(self, data: bytes, priority: float | None = None) -> None:
        """Unlike Huey's: nobody listens, so nobody is notified."""
        insert = f"INSERT INTO {self.table_task} (queue, data, priority) VALUES (%s, %s, %s)"
        self.sql(insert, (self.name, data, priority or 0))

    def dequeue(self) -> Any:
        if not self.gate():
            return None
        try:
            return super().dequeue()
        except self.errors as error:
            if not self._is_lost:
                _log.warning("doorbells: %s; trying again", str(error).rstrip())
            self._is_lost = True
            return None

    def has_pending(self) -> bool:
        return bool(self.sql(f"SELECT 1 FROM {self.table_task} WHERE queue = %s LIMIT 1", (self.name,), results=True))


class _Worker(Worker):  # type: ignore[misc]
    """Wakes at once when this process rings or frees slots, instead of at the next poll."""

    delay: float

    def sleep(self) -> None:
        self.delay = min(self.delay, self.max_delay)
        if self.huey.wakeup.wait(self.delay * random.uniform(1.0, self.huey.storage.longest_poll)):
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
    """The queue of one crawl, as one process sees it."""

    def __init__(self, folder: Path, *, server: Server | None = None, wakeup: threading.Event | None = None) -> None:
        """`wakeup`: when set, the consumer polls at once. Raises StorageError where the file cannot be created.

        `server`: of a data dir that belongs to PostgreSQL. It is asked at the first use.
        """
        build = partial(Huey, _NAME, results=False, serializer=_JsonSerializer())
        if server is not None:
            self._huey = build(storage_class=_PostgresStorage, server=server, folder=folder)
        else:
            path = folder / QUEUE_FILE
            try:
                create_missing(path)
                self._huey = build(storage_class=_Storage, filename=str(path))
            except (sqlite3.Error, OSError) as error:
                raise StorageError(f"{path}: {error}", "Free some disk space, or delete the file.") from error
        self._wakeup = self._huey.wakeup = wakeup or threading.Event()
        self._crawl_slice = self._huey.task(name="crawl_slice")(self._answer)
        self._handler: RingHandler | None = None
        self._consumer: _Consumer | None = None
        self._stopped = False

    @classmethod
    def open_empty(cls, folder: Path, *, server: Server | None = None) -> "Doorbells":
        """The queue for a supervisor that leads: no doorbell of an earlier leader waits. Raises StorageError."""
        if server is None:
            discard_queue(folder)
            return cls(folder)
        doorbells = cls(folder, server=server)
        try:
            doorbells._huey.storage.flush_queue()
        except doorbells._huey.storage.errors as error:
            doorbells.close()
            raise StorageError(f"doorbells: {error}", "Start PostgreSQL; the crawl goes on by itself.") from error
        return doorbells

    def ring(self) -> None:
        """Ring after sequences were marked as rung. A failure is logged, not raised: lost doorbells are repaired.

        A doorbell that waits already is enough: it is answered later, by a lease that sees them.
        """
        if not self.has_pending():
            try:
                self._crawl_slice()
            except self._huey.storage.errors as error:
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
        """Whether a doorbell waits: one index lookup.

        None where the file is missing, replaced or damaged, or PostgreSQL does not answer.
        """
        try:
            pending: bool | None = self._huey.storage.has_pending()
        except self._huey.storage.errors:
            return None
        return pending

    def close(self) -> None:
        """Close the file, or the connection."""
        with contextlib.suppress(self._huey.storage.errors):
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
