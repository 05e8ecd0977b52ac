"""A small file in which the crawls of a machine share the next send time and the backoff of each host."""

import fcntl
import logging
import os
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from crawl_engine.runtime.clock import boot_id, store_time
from crawl_engine.runtime.private_file import open_private
from crawl_engine.runtime.user_folder import state_folder

_log = logging.getLogger(__name__)

_FILE_NAME = "hosts.clock"
_MAGIC = b"CCHOSTS1"
_RECORDS = 16_384
_RECORD = struct.Struct("=16s4d")
"""Digest of the host key; boot-time seconds: next send, end of the backoff, last strike, last use."""
_RECORD_SIZE = 64
_HEADER_SIZE = 64
_SIZE = _HEADER_SIZE + _RECORDS * _RECORD_SIZE
_TIME = struct.Struct("=d")
_NEXT_AT, _BACKOFF, _STRUCK_AT, _USED_AT, _NO_PROBE = 16, 24, 32, 40, 48
_PROBES = 16
_IDLE_SECONDS = 600.0
"""Seconds without use after which another host may take over a record."""
_MAX_AHEAD = 90_000.0
"""Deadlines lie at most this far ahead, since a delay is at most a day; a later one is damage, and ignored."""

# locks lie far behind the end of the file: a locked byte need not exist
_LOCKS = 1 << 40
_SLOTS = 1 << 20
_LOCKS_OF_RECORD = 1 << 21
"""Locks of a record: one byte for each concurrent request, then one for each data dir that uses the host."""
_MUTEX_SECONDS, _MUTEX_PAUSE = 0.1, 0.001
"""Seconds to wait for a process that is stopped while it holds the lock of a record."""

_FLOCK = struct.Struct("qqihh" if sys.platform == "darwin" else "hhqqi")


class HostRecord(NamedTuple):
    """The record of a host in the file."""

    number: int
    offset: int
    """Of its bytes in the file."""
    locks: int
    """Of its first lock byte."""

    @classmethod
    def of(cls, number: int) -> "HostRecord":
        """The record of this number."""
        return cls(number, _HEADER_SIZE + number * _RECORD_SIZE, _LOCKS + number * _LOCKS_OF_RECORD)


class HostClock:
    """An open clock file; one for each process, used by one thread.

    It is read with `pread` and written with `pwrite` under a byte lock: after a truncation, or on a full disk, mapped
    memory would end the process by a signal. Missing bytes count as zeros. Locks belong to the process, so those of a
    killed one vanish. A process must not open the file twice: closing one would drop all its locks.
    """

    def __init__(self, path: Path, user: str) -> None:
        """`user`: an id of the data dir. Creates the file and its folder. Raises OSError."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = open_private(path, os.O_RDWR)
        try:
            self._prepare()
        except BaseException:
            os.close(self._fd)
            raise
        self._refused_at: dict[int, float] = {}
        """By record, the boot-time second since which another process holds its lock."""
        self._user_lock = _SLOTS + int.from_bytes(blake2b(user.encode(), digest_size=4).digest()) % _SLOTS

    def close(self) -> None:
        """Close the file, which drops all locks."""
        os.close(self._fd)

    def find(self, host_key: str) -> HostRecord:
        """The record of a host (`name:port`), or of a pattern of hosts with one limit, created if missing."""
        digest = blake2b(host_key.encode(), digest_size=16).digest()
        first = int.from_bytes(digest[:8])
        probed = [HostRecord.of((first + i) % _RECORDS) for i in range(_PROBES)]
        for record in probed:
            if self._bytes(record.offset, 16) == digest:
                return record
        now = store_time()
        with self._locked(0, patience=_MUTEX_PAUSE):
            for record in probed:
                used, *_, used_at = self._read(record)
                if used == digest:
                    return record
                if not any(used) or self._is_free(record, used_at, now):
                    with suppress(OSError):  # the record is then one of another host
                        self._write(record.offset, _RECORD.pack(digest, 0.0, 0.0, 0.0, now))
                    return record
        return probed[0]  # shared with another host: both are slower than necessary

    def backoff(self, record: HostRecord) -> float:
        """The boot-time second at which the host's last backoff ends or ended; 0 once an answer came after it."""
        return self._time(record, _BACKOFF)

    def wants_probe(self, record: HostRecord) -> bool:
        """Whether one request goes first after the last backoff."""
        return not self._time(record, _NO_PROBE)

    def clear_backoff(self, record: HostRecord) -> None:
        """Forget a backoff that has ended: the host has answered. Raises OSError."""
        with self._locked(record.offset, patience=_MUTEX_PAUSE):
            if self._time(record, _BACKOFF) <= store_time():
                self._write(record.offset + _BACKOFF, _TIME.pack(0.0))

    def end_backoff(self, record: HostRecord) -> None:
        """End the host's backoff now, if it has one. Raises OSError."""
        with self._locked(record.offset):
            if self._time(record, _BACKOFF):
                self._write(record.offset + _BACKOFF, _TIME.pack(store_time()))

    def strike(
        self, record: HostRecord, sent_at: float, until: float, asked_until: float, *, probe: bool = True
    ) -> bool:  # fmt: skip
        """Note an answer of 429 or 503 to a request of `sent_at`; returns whether it is the first of its burst.

        The backoff lasts at least until `until`; for a later answer of the burst, until `asked_until`. `probe`: one
        request goes first after it. Raises OSError.
        """
        with self._locked(record.offset, patience=_MUTEX_PAUSE):
            now, struck_at = store_time(), self._time(record, _STRUCK_AT)
            first = sent_at > struck_at
            values = (
                max(until if first else asked_until, self._time(record, _BACKOFF)),
                now if first else struck_at,
                now,
                0.0 if probe else 1.0,
            )
            self._write(record.offset + _BACKOFF, struct.pack("=4d", *values))
        return first

    def reserve(self, record: HostRecord, delay: float) -> float:
        """Reserve the present moment for a request to a host with a delay.

        Returns 0, or the boot-time second at which to try again. Raises OSError.
        """
        now, next_at = store_time(), self._time(record, _NEXT_AT)
        if next_at > now:
            self._refused_at.pop(record.number, None)  # the holder of the lock has written
            return next_at
        locked = self._try_lock(record.offset)
        if not locked and self._is_patient(record, now):
            return now + _MUTEX_PAUSE
        self._refused_at.pop(record.number, None)
        try:
            now, next_at = store_time(), self._time(record, _NEXT_AT)
            if next_at > now:
                return next_at
            self._write(record.offset + _NEXT_AT, _TIME.pack(now + delay))
            self._write(record.offset + _USED_AT, _TIME.pack(now))
        finally:
            if locked:
                self._unlock(record.offset)
        return 0.0

    def next_turn(self, record: HostRecord) -> float:
        """The boot-time second before which no turn comes. Raises OSError."""
        return self._time(record, _NEXT_AT)

    def _is_patient(self, record: HostRecord, now: float) -> bool:
        """Whether to keep waiting for a record's lock; called each time it is refused."""
        since = self._refused_at.get(record.number, 0.0)
        if now - since > 2 * _MUTEX_SECONDS:  # of an earlier wait
            since = self._refused_at[record.number] = now
        return now - since < _MUTEX_SECONDS

    def lock_slot(self, record: HostRecord, slot: int) -> bool:
        """Lock one of the host's concurrent requests; False: another process has it."""
        return self._try_lock(record.locks + slot)

    def unlock_slot(self, record: HostRecord, slot: int) -> None:
        """Free a slot that this process has locked."""
        self._unlock(record.locks + slot)

    def join(self, record: HostRecord) -> None:
        """Count this data dir among those that use the host. Its nodes share one byte. Raises OSError."""
        fcntl.lockf(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, record.locks + self._user_lock)

    def keep(self, record: HostRecord) -> None:
        """Note that the host is still in use, so that another host does not take its record. Raises OSError.

        Other processes see the locks; this one does not see its own.
        """
        self._write(record.offset + _USED_AT, _TIME.pack(store_time()))

    def leave(self, record: HostRecord) -> None:
        """Undo `join`."""
        self._unlock(record.locks + self._user_lock)

    def share(self, record: HostRecord, slots: int) -> range:
        """The part of the host's `slots` for this data dir; all of them if more data dirs than slots use the host."""
        users = {offset - record.locks for offset in self._find_locks(record.locks + _SLOTS, _SLOTS)}
        users.add(self._user_lock)
        rank, count = sorted(users).index(self._user_lock), len(users)
        part = range(slots * rank // count, slots * (rank + 1) // count)
        return part or range(slots)

    def list_holders(self, record: HostRecord, slots: int) -> list[int | None]:
        """For each slot that this data dir may take, the id of the process that has locked it; None: it is free."""
        locks = [self._find_lock(record.locks + slot, 1) for slot in self.share(record, slots)]
        return [None if lock is None else lock[2] for lock in locks]

    def _prepare(self) -> None:
        """Give the file its size, and clear it if it was written under another boot."""
        header = _MAGIC + blake2b(boot_id().encode(), digest_size=16).digest()
        with self._locked(0):
            if os.fstat(self._fd).st_size >= _SIZE and os.pread(self._fd, len(header), 0) == header:
                return
            os.fchmod(self._fd, 0o600)
            # written out, so that a full disk is noticed now
            for offset in range(0, _SIZE, 1 << 16):
                self._write(offset, bytes(min(1 << 16, _SIZE - offset)))
            self._write(0, header)

    def _is_free(self, record: HostRecord, used_at: float, now: float) -> bool:
        _, next_at, backoff, *_ = self._read(record)
        idle = max(next_at, backoff, used_at) + _IDLE_SECONDS < now or used_at > now + _MAX_AHEAD
        return idle and not self._find_locks(record.locks, _LOCKS_OF_RECORD)

    def _read(self, record: HostRecord) -> tuple[bytes, float, float, float, float]:
        digest, next_at, backoff, struck_at, used_at = _RECORD.unpack(self._bytes(record.offset, _RECORD.size))
        return digest, next_at, backoff, struck_at, used_at

    def _time(self, record: HostRecord, field: int) -> float:
        value: float = _TIME.unpack(self._bytes(record.offset + field, _TIME.size))[0]
        return value if 0 < value < store_time() + _MAX_AHEAD else 0.0

    def _bytes(self, offset: int, size: int) -> bytes:
        """Bytes of the file; zeros for unreadable ones."""
        try:
            return os.pread(self._fd, size, offset).ljust(size, b"\0")
        except OSError:
            return bytes(size)

    def _write(self, offset: int, data: bytes) -> None:
        os.pwrite(self._fd, data, offset)

    @contextmanager
    def _locked(self, offset: int, patience: float = _MUTEX_SECONDS) -> Iterator[None]:
        """Hold the lock of a byte, unless another holds it for longer than `patience` seconds."""
        end = time.monotonic() + patience
        while not (locked := self._try_lock(offset)) and time.monotonic() < end:
            time.sleep(_MUTEX_PAUSE / 2)
        try:
            yield
        finally:
            if locked:
                self._unlock(offset)

    def _try_lock(self, offset: int) -> bool:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _unlock(self, offset: int) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, offset)

    def _find_locks(self, start: int, length: int) -> list[int]:
        """Offsets at which locks of other processes begin in a range."""
        if length <= 0:
            return []
        lock = self._find_lock(start, length)
        if lock is None:
            return []
        begin, end = max(lock[0], start), min(lock[0] + lock[1], start + length)
        return [begin, *self._find_locks(start, begin - start), *self._find_locks(end, start + length - end)]

    def _find_lock(self, start: int, length: int) -> tuple[int, int, int] | None:
        """Start, length and process of a lock that another process holds in a range."""
        kind, whence = fcntl.F_WRLCK, os.SEEK_SET
        darwin = sys.platform == "darwin"
        query = _FLOCK.pack(*((start, length, 0, kind, whence) if darwin else (kind, whence, start, length, 0)))
        answer = _FLOCK.unpack(fcntl.fcntl(self._fd, fcntl.F_GETLK, query))
        at, size, pid, kind = (*answer[:3], answer[3]) if darwin else (*answer[2:], answer[0])
        return None if kind == fcntl.F_UNLCK else (at, size, pid)


def open_host_clock(folder: Path, environment: Mapping[str, str], *, shared: bool) -> HostClock:
    """The clock that all crawls of the machine share; if it is off or unusable, the clock of this data dir."""
    user = str(folder.resolve())
    if shared:
        try:
            return HostClock(machine_path(environment), user)
        except OSError as error:
            _log.warning("the machine's host clock cannot be used: %s", error)
    return HostClock(data_dir_path(folder), user)


def end_rest(folder: Path, environment: Mapping[str, str], host_key: str, *, shared: bool) -> None:
    """End the backoff of a host for all crawls that share its clock. For a process that holds no clock open."""
    try:
        clock = open_host_clock(folder, environment, shared=shared)
        try:
            clock.end_backoff(clock.find(host_key))
        finally:
            clock.close()
    except OSError as error:
        _log.warning("the rest of %s cannot be ended: %s", host_key, error)


def data_dir_path(folder: Path) -> Path:
    """The file that the nodes of one data dir share."""
    return folder / _FILE_NAME


def machine_path(environment: Mapping[str, str]) -> Path:
    """The file that all crawls of this user share. Raises OSError if the user has no folder for it."""
    return state_folder(environment) / _FILE_NAME
