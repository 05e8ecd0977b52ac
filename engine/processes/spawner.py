"""Starts the processes of nodes and of the appender; nodes also before their assignment."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from engine.errors import CrawlError
from engine.processes.child import blocked, kill_group
from engine.runtime.log_file import open_log
from engine.settings import usable_cpus

NODE, APPENDER = "engine.node", "engine.append"

_MALLOC_ENV = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_TRIM_THRESHOLD_": "4194304",
    "MALLOC_MMAP_THRESHOLD_": "1048576",
}
"""Read by glibc, ignored elsewhere: returns the memory of a huge page to the OS instead of keeping it per thread.

The thresholds are not smaller, so that the memory for compressing a group of pages is reused from group to group.
"""


class Spawner:
    """Starts `python -m MODULE --data DIR`; the process reads the rest of its arguments, its assignment, from stdin.

    A node that is started early imports its code while the supervisor imports its own. It opens nothing before its
    assignment, and ends if its stdin ends instead.
    """

    def __init__(self, folder: Path, *, wakeup_fd: int | None = None) -> None:
        """`folder`: the data dir, absolute.

        A node without work writes to `wakeup_fd` to wake the supervisor (engine.runtime.wakeup).
        """
        self._folder = folder
        self._wakeup_fd = wakeup_fd
        self._early_nodes: deque[subprocess.Popen[bytes]] = deque()

    def start_early_nodes(self, count: int) -> None:
        """Start so many nodes that are sure to be needed, one for each other processor at most.

        More would take time from this process. A node that cannot be started now is started by `spawn`.
        """
        with contextlib.suppress(CrawlError):
            for _ in range(min(count, usable_cpus() - 1)):
                self._early_nodes.append(self._start(NODE, subprocess.DEVNULL))

    def spawn(self, module: str, arguments: Sequence[str], *, settings: str, log: Path) -> subprocess.Popen[bytes]:
        """Start a process, or take a node that was started early, and send its arguments and settings.

        Its output goes to `log`; its stdin stays open as its lifeline. Raises CrawlError if it cannot be started.
        """
        with contextlib.suppress(OSError):
            log.parent.mkdir(mode=0o700, exist_ok=True)
        process = self._take_early_node() if module == NODE else None
        if process is None:
            with open_log(log) as output:
                process = self._start(module, output)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died: its monitor reports that
            assignment = json.dumps([*arguments, "--log", str(log)])
            process.stdin.write(f"{assignment}\n{settings}\n".encode())
            process.stdin.flush()
        return process

    def close(self) -> None:
        """End the early nodes that were not needed."""
        while self._early_nodes:
            process = self._early_nodes.pop()
            kill_group(process)
            if process.stdin is not None:
                process.stdin.close()

    def _take_early_node(self) -> subprocess.Popen[bytes] | None:
        while self._early_nodes:
            process = self._early_nodes.popleft()
            if process.poll() is None:
                return process
        return None

    def _start(self, module: str, output: IO[bytes] | int) -> subprocess.Popen[bytes]:
        """Start a process in its own session.

        `-P` keeps a folder of the user from shadowing our packages. It inherits SIGINT and SIGHUP blocked, which would
        end it before it ignores them.
        """
        wakeup = [self._wakeup_fd] if self._wakeup_fd is not None and module == NODE else []
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
