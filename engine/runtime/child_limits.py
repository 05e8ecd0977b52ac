"""What a process does that runs users' code for a parent: dies with it, ignores its signals, limits its memory."""

import ctypes
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_WATCH_SECONDS = 0.5


def die_with_parent(parent: int) -> None:
    """Have this process end when its parent ends; it exits at once if that has happened already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    else:
        threading.Thread(target=_watch_parent, args=(parent,), name="parent", daemon=True).start()
    if os.getppid() != parent:
        os._exit(0)


def ignore_stop_signals() -> None:
    """Ignore the signals that are meant for the parent, whose process group this is."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def limit_memory(growth: int) -> None:
    """Let memory grow by so many bytes: what would pass it fails with MemoryError (Linux).

    No core dump is written, and the system, short of memory, ends this process before any other.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(OSError, ValueError):
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + growth, mapped + growth))


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(0)
