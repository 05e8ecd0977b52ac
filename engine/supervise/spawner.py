"""Starts the processes of nodes and of the appender, some of them before their identity is known."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Literal

from engine.errors import CrawlError
from engine.runtime.log_file import open_log
from engine.supervise.process_group import blocked, kill_group

ProcessModule = Literal["engine.node", "engine.append"]

_MALLOC_ENV = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_TRIM_THRESHOLD_": "4194304",
    "MALLOC_MMAP_THRESHOLD_": "2097152",
}
"""Read by glibc, ignored elsewhere: returns the memory of a huge page to the OS instead of keeping it per thread.

The thresholds are not smaller, so that the memory for compressing a group of pages is reused from group to group.
"""


class Spawner:
    """Starts `python -m MODULE --data DIR`; the process reads the rest of its arguments, its identity, from stdin.

    One that is started early imports its code while the supervisor imports its own. It opens nothing before it has an
    identity, and ends if its stdin ends instead.
    """

    def __init__(self, folder: Path, *, wakeup_fd: int | None = None) -> None:
        """`folder`: the data dir, absolute.

        A node without work writes to `wakeup_fd` to wake the supervisor (engine.runtime.wakeup).
        """
        self._folder = folder
        self._wakeup_fd = wakeup_fd
        self._early: list[tuple[ProcessModule, subprocess.Popen[bytes]]] = []

    def start_early(self, module: ProcessModule, count: int = 1) -> None:
        """Start processes that are sure to be needed. One that cannot be started now is started by `spawn`."""
        with contextlib.suppress(CrawlError):
            for _ in range(count):
                self._early.append((module, self._start(module, subprocess.DEVNULL)))

    def spawn(
        self, module: ProcessModule, arguments: Sequence[str], *, settings: str, log: Path
    ) -> subprocess.Popen[bytes]:
        """Start a process, or take one that was started early, and send its arguments and settings.

        Its output goes to `log`; its stdin stays open as its lifeline. Raises CrawlError if it cannot be started.
        """
        with contextlib.suppress(OSError):
            log.parent.mkdir(mode=0o700, exist_ok=True)
        process = self._take_early(module)
        if process is None:
            with open_log(log) as output:
                process = self._start(module, output)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died already: its monitor reports that
            identity = json.dumps([*arguments, "--log", str(log)])
            process.stdin.write(f"{identity}\n{settings}\n".encode())
            process.stdin.flush()
        return process

    def close(self) -> None:
        """End the early processes that were not needed."""
        while self._early:
            _, process = self._early.pop()
            kill_group(process)
            if process.stdin is not None:
                process.stdin.close()

    def _take_early(self, module: ProcessModule) -> subprocess.Popen[bytes] | None:
        """The next early process of a kind that has not ended."""
        for entry in [entry for entry in self._early if entry[0] == module]:
            self._early.remove(entry)
            if entry[1].poll() is None:
                return entry[1]
        return None

    def _start(self, module: ProcessModule, output: IO[bytes] | int) -> subprocess.Popen[bytes]:
        """Start a process in its own session.

        `-P` keeps a folder of the user from shadowing our packages. It inherits SIGINT and SIGHUP blocked: it ignores
        both, and either would end it before it can say so.
        """
        wakeup = [self._wakeup_fd] if self._wakeup_fd is not None and module == "engine.node" else []
        options = ["--data", str(self._folder), *(f"--wakeup-fd={fd}" for fd in wakeup)]
        try:
            with blocked(signal.SIGINT, signal.SIGHUP):
                return subprocess.Popen(
                    [sys.executable, "-P", "-m", module, *options],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    pass_fds=wakeup,
                    env={**_MALLOC_ENV, **os.environ},
                )
        except OSError as error:
            raise CrawlError(f"cannot start {module}: {error.strerror}", "Free memory, processes or disk.") from error
