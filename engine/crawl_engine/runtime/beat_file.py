"""The heartbeat file: one record, overwritten in place, so that liveness needs no database.

The writer never waits for the disk; the reader notes on its own clock when the number last changed.
"""

import os
import re
import stat
import struct
import time
import zlib
from pathlib import Path

import msgspec
from msgspec import Struct

from crawl_engine.late_regex import late_regex
from crawl_engine.runtime.private_file import open_private

INTERVAL = 0.25
"""Seconds between two beats."""
SUPERVISOR_BEAT = "supervisor"
"""Name of the supervisor's beat. Its `now` holds the alarm, readable while no table can be written."""

MAX_WAITING = 4
"""Hosts of a node whose waiting requests its beat names."""

_RECORD = struct.Struct(f"<QB??xIQQQdddQQdd200s{'Qd' * MAX_WAITING}")
_NO_HOSTS = ((0, 0.0),) * MAX_WAITING
_CHECKSUM = struct.Struct("<I")
_NAME = late_regex(rf"[na]\d+|{SUPERVISOR_BEAT}", re.ASCII)
_MAX_BYTES = 4096
_STATES = ("STARTING", "READY", "DONE", "STANDBY", "DRAINING", "SHUTDOWN")


class BrowserState(Struct, frozen=True, kw_only=True):
    """A browser with its driver. Names and order of the fields are keys of `status --json`, as in `NodeBrowsers`."""

    pid: int
    """Of the driver, which leads the session of the browser."""
    pages: int
    """Those that it was given so far."""
    loading: int
    """Those that it loads now."""
    rss: int
    """Bytes of browser and driver after the last page, what their processes share counted once; 0: not known yet."""
    age: float
    """Seconds since it was started."""
    urls: tuple[str, ...]
    """The first of those that it loads, cut."""


class NodeBrowsers(Struct, frozen=True, kw_only=True):
    """The browsers of a node that has started one."""

    replaced: int = 0
    """How many ended and got no further page."""
    reason: str = ""
    """Why the last of them did."""
    is_fault: bool = False
    """Whether it crashed or hung; others are replaced before they grow old."""
    processes: tuple[BrowserState, ...] = ()


class Beat(Struct, frozen=True, kw_only=True):
    """A process's report of itself. `number` grows by one with each beat."""

    number: int
    state: str
    runs_alone: bool = False
    """Whether it works a job that crashed a node before, and no other beside it (node)."""
    in_flight: int = 0
    done: int = 0
    failed: int = 0
    rss: int = 0
    """Resident memory in bytes."""
    cpu: float = 0.0
    """CPU seconds so far (node)."""
    is_cpu_bound: bool = False
    """Whether it worked or waited for a CPU all the time since the last beat (node)."""
    lag: float = 0.0
    """Seconds its event loop ran late (node), or its last tick took (supervisor)."""
    flush_ms: float = 0.0
    """Milliseconds the last flush took (appender)."""
    rows: int = 0
    """Rows written so far by this process (appender)."""
    bytes: int = 0
    now: str = ""
    """Its current work; cut to 200 bytes."""
    now_age: float = 0.0
    """Seconds since its oldest request was sent, of which `now` is the URL (node)."""
    now_limit: float = 0.0
    """Seconds that this request may take; 0: no limit (node)."""
    waiting_hosts: tuple[tuple[int, float], ...] = ()
    """The hosts that have kept a request waiting longest, and the boot-time second when it was sent (node)."""
    browsers: NodeBrowsers | None = None
    """None: it has started none (node)."""


_browsers = msgspec.json.Decoder(NodeBrowsers)


class BeatWriter:
    """Writes the beats of one process to `path`."""

    def __init__(self, path: Path) -> None:
        """Create the file, or continue an existing beat file. Raises OSError; never follows a link."""
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self._fd = open_private(path, os.O_WRONLY)
        self._size = os.fstat(self._fd).st_size

    def write(self, beat: Beat) -> None:
        now = beat.now.encode("utf-8", "replace")[:200]
        body = _RECORD.pack(
            beat.number,
            _STATES.index(beat.state),
            beat.runs_alone,
            beat.is_cpu_bound,
            beat.in_flight,
            beat.done,
            beat.failed,
            beat.rss,
            beat.cpu,
            beat.lag,
            beat.flush_ms,
            beat.rows,
            beat.bytes,
            beat.now_age,
            beat.now_limit,
            now,
            *[part for host in (*beat.waiting_hosts, *_NO_HOSTS)[:MAX_WAITING] for part in host],
        )
        if beat.browsers is not None:
            body += msgspec.json.encode(beat.browsers)
        size = os.pwrite(self._fd, body + _CHECKSUM.pack(zlib.crc32(body)), 0)
        if size < self._size:
            os.ftruncate(self._fd, size)
        self._size = size

    def close(self) -> None:
        """Close the file, leaving the last record."""
        os.close(self._fd)


def read_beat(path: Path) -> Beat | None:
    """The last complete record; None: no record yet, or it is being written."""
    try:
        record = path.read_bytes()
    except OSError:
        return None
    if len(record) < _RECORD.size + _CHECKSUM.size or not _has_checksum(record):
        return None
    browsers = record[_RECORD.size : -_CHECKSUM.size]
    number, state, runs_alone, is_cpu_bound, in_flight, done, failed, rss, cpu, lag, *rest = _RECORD.unpack_from(record)
    flush_ms, rows, size, age, limit, now, *waiting = rest
    return Beat(
        number=number,
        state=_STATES[state],
        runs_alone=runs_alone,
        in_flight=in_flight,
        done=done,
        failed=failed,
        rss=rss,
        cpu=cpu,
        is_cpu_bound=is_cpu_bound,
        lag=lag,
        flush_ms=flush_ms,
        rows=rows,
        bytes=size,
        now=now.rstrip(b"\0").decode("utf-8", "ignore"),
        now_age=age,
        now_limit=limit,
        waiting_hosts=tuple((host, at) for host, at in zip(waiting[::2], waiting[1::2], strict=True) if host),
        browsers=_browsers.decode(browsers) if browsers else None,
    )


def is_beat_name(name: str) -> bool:
    """Whether a file with this name is a heartbeat: of a node, an appender, or the supervisor."""
    return _NAME.fullmatch(name) is not None


def is_beat_file(path: Path) -> bool:
    """Whether a `BeatWriter` of any version wrote this file: a small regular file with a valid checksum.

    A file that a power loss left empty or full of zeros counts, too. Raises OSError.
    """
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
        return False
    record = path.read_bytes()
    return not any(record) or (len(record) > _CHECKSUM.size and _has_checksum(record))


def _has_checksum(record: bytes) -> bool:
    return bool(_CHECKSUM.unpack(record[-_CHECKSUM.size :])[0] == zlib.crc32(record[: -_CHECKSUM.size]))


def resident_bytes(pid: int | None = None) -> int:
    """Resident memory of a process, by default this one; 0 if it has ended, or the system has no cheap way."""
    try:
        return int(Path(f"/proc/{pid or 'self'}/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def cpu_seconds(pid: int | None = None) -> float:
    """CPU seconds of a process, by default this one; 0 for a process that has ended, or without `/proc`."""
    if pid is None:
        return time.process_time()
    try:
        user, system = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0


def run_delay(pid: int) -> float:
    """Seconds in which a process could have run, but others had the processors: the second number of its `schedstat`.

    0 if it has ended, or the system does not say.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
