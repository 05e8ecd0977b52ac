"""The processes of a browser: their memory, the page at fault, a guard that ends what is left."""

import contextlib
import os
import select
import signal
import time
from pathlib import Path

from crawl_engine.processes.child_limits import close_inherited_files, set_process_name

_SETTLE_SECONDS = 1.0
"""After a page was ended, its memory needs so long to be free."""
_GROWTH = 1.05
"""What stays above the limit, though a page was ended, must grow so much before another one is."""
_LOOK_SECONDS, _TREE_SECONDS = 0.2, 1.0
"""Between two looks, and between two lists of the processes."""
_DRIVER_SHARE, _DRIVER_BYTES = 0.25, 400_000_000
"""Of the limit, or so many: more for the driver and this process is what a page has sent to them."""
_GUARD_SECONDS, _GUARD_PAUSE, _EMPTY_LOOKS = 2.5, 0.1, 3


class MemoryWatch:
    """Ends the page that makes its browser grow beyond a limit."""

    def __init__(self, root: int, limit: int) -> None:
        self._root = root
        self._limit = self._bar = limit
        self._pids: list[int] = []
        self._listed_at = self._ended_at = float("-inf")
        self._drivers: list[int] = []
        """The processes of this program and of the driver."""
        self._ticks: dict[int, int] = {}
        """CPU time of each process when it was listed."""

    def look(self) -> None:
        """End the page at fault, if there is one."""
        now = time.monotonic()
        if now - self._listed_at > _TREE_SECONDS:
            self._listed_at, self._pids = now, list_tree(self._root)
            self._ticks = {pid: _cpu_ticks(pid) for pid in self._pids}
            self._drivers = [pid for pid in self._pids if pid == self._root or _has_argument(pid, b"run-driver")]
        sizes = _sizes_of(self._pids)
        size = _total(sizes)
        drivers = sum(sizes[pid][0] for pid in self._drivers if pid in sizes)
        if drivers > max(_DRIVER_BYTES, _DRIVER_SHARE * self._limit):
            size = max(size, self._limit) + drivers  # before it is the greater part of all
        if size <= self._limit:
            self._bar = self._limit
        elif size > self._bar and now - self._ended_at > _SETTLE_SECONDS:
            sizes = _sizes_of(list_tree(self._root))
            self._ended_at, self._bar = now, int(max(self._limit, size) * _GROWTH)
            self._end_page(sizes, drivers)

    def _end_page(self, sizes: dict[int, tuple[int, int]], size_of_drivers: int) -> None:
        """Kill the largest process of pages; where another process is larger, the busiest: it makes that one grow."""
        pages = [pid for pid in sizes if _has_argument(pid, b"--type=renderer")]
        if not pages:
            return
        largest = max(sizes, key=lambda pid: sizes[pid][0])
        if largest not in pages or size_of_drivers > sizes[largest][0]:
            largest = max(pages, key=lambda pid: (_cpu_ticks(pid) - self._ticks.get(pid, 0), sizes[pid][0]))
        with contextlib.suppress(OSError):
            os.kill(largest, signal.SIGKILL)


def tree_bytes(root: int) -> int:
    """The memory of a process and of those below it, what they share counted once; 0 where /proc does not tell."""
    return _total(_sizes_of(list_tree(root)))


def end_processes(root: int) -> None:
    """Kill the processes below this one: a browser that hangs leads a session of its own."""
    for pid in list_tree(root):
        if pid != root:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def list_tree(root: int) -> list[int]:
    """A process and those below it."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _, _) in _list_all().items():
        children.setdefault(parent, []).append(pid)
    found, open_ = list[int](), [root]
    while open_:
        pid = open_.pop()
        found.append(pid)
        open_ += children.get(pid, ())
    return found


def start_guard(folder: str, limit: int) -> None:
    """Fork a process that watches the memory of the browser, and kills what is left after the end of this one.

    This process may be busy with what a page sends, and a stopped browser hears of nothing. The guard knows what is
    left by the folder that it works in, and by its session.
    """
    root = os.getpid()
    if not _list_all():
        return  # without /proc nothing could be found
    reader, _ = os.pipe()  # the other end stays open until this process ends
    if os.fork():
        os.close(reader)
        return
    try:
        os.setsid()
        os.chdir("/")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        set_process_name("browser-guard")
        close_inherited_files({reader})
        watch = MemoryWatch(root, limit)
        while not select.select([reader], [], [], _LOOK_SECONDS)[0] or os.read(reader, 1):
            watch.look()
        _end_all({root}, folder)
    finally:
        os._exit(0)


def _end_all(sessions: set[int], folder: str) -> None:
    """Kill the processes of a browser whose first process has ended; a later browser may have the same folder."""
    until, ended_at = time.monotonic() + _GUARD_SECONDS, _now_ticks()
    empty = 0
    while empty < _EMPTY_LOOKS and time.monotonic() < until:
        processes = {pid: one for pid, one in _list_all().items() if pid != os.getpid() and one[2] <= ended_at}
        sessions |= {session for pid, (_, session, _) in processes.items() if _works_in(pid, folder)}
        left = [pid for pid, (_, session, _) in processes.items() if session in sessions]
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        empty = 0 if left else empty + 1
        time.sleep(_GUARD_PAUSE)


def _works_in(pid: int, folder: str) -> bool:
    with contextlib.suppress(OSError):
        cwd = str(Path(f"/proc/{pid}/cwd").readlink()).removesuffix(" (deleted)")
        return f"{cwd}/".startswith(f"{folder}/")
    return False


def _now_ticks() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")


def _list_all() -> dict[int, tuple[int, int, int]]:
    """Of each process that has not ended its parent, its session and when it started, in ticks since the boot."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parts = entry.read_text().rpartition(")")[2].split()
            if parts[0] != "Z":
                found[int(entry.parent.name)] = int(parts[1]), int(parts[3]), int(parts[19])
    return found


def _cpu_ticks(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(parts[11]) + int(parts[12])
    return 0


def _has_argument(pid: int, argument: bytes) -> bool:
    with contextlib.suppress(OSError):
        return argument in Path(f"/proc/{pid}/cmdline").read_bytes()  # Chromium's own are one text
    return False


def _sizes_of(pids: list[int]) -> dict[int, tuple[int, int]]:
    """The bytes of each process that are its own, and that it may share."""
    found, size = {}, os.sysconf("SC_PAGE_SIZE")
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            _, resident, shared = map(int, Path(f"/proc/{pid}/statm").read_text().split()[:3])
            found[pid] = (resident - shared) * size, shared * size
    return found


def _total(sizes: dict[int, tuple[int, int]]) -> int:
    return sum(own for own, _ in sizes.values()) + max((shared for _, shared in sizes.values()), default=0)
