"""Signals, reaps and kills the process groups of children, which each child leads."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator

_KILL_WAIT_SECONDS = 1.0


def reap_group(process: subprocess.Popen[bytes]) -> int | None:
    """Reap the leader of a process group if it ended, after killing the group: its exit code, else None."""
    if process.returncode is None and _has_ended(process.pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.poll()


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to the group of a leader; if that has ended, kill what is left of the group."""
    if reap_group(process) is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def kill_group(process: subprocess.Popen[bytes]) -> int:
    """Kill the group of a leader and wait for its end; returns the leader's exit code.

    A process that the kernel holds for longer than a second counts as dead: it is fenced, and dies when it wakes.
    """
    signal_group(process, signal.SIGKILL)
    try:
        return process.wait(_KILL_WAIT_SECONDS)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL


def _has_ended(pid: int) -> bool:
    """Whether a child has ended and is not reaped yet."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


@contextlib.contextmanager
def blocked(*signals: signal.Signals) -> Iterator[None]:
    """Block signals in this thread; what it starts inherits that."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
