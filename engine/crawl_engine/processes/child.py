"""A child of this process, whoever started it: signals, reaping, its lifeline."""

import contextlib
import os
import signal
import socket
import time

from crawl_engine.processes.orders import Ended
from crawl_engine.runtime.process_identity import identity_of

_KILL_WAIT_SECONDS = 1.0
_OWNER_SECONDS = 5.0


class Child:
    """A process that leads a session. It is signalled and reaped with what is left of its group."""

    is_own = True

    def __init__(self, lifeline: socket.socket | None = None, pid: int | None = None) -> None:
        """`pid`: None until the template has reported it."""
        self.pid = pid
        self.lifeline = lifeline
        self._code: int | None = None
        self._pending: list[signal.Signals] = []
        """Signals for a process that has no pid yet."""

    def on_started(self, pid: int) -> None:
        """Note its pid, and send what it should have got before."""
        self.pid = pid
        for number in self._pending:
            self.signal(number)

    def on_ended(self, _: Ended) -> None:
        """Note that it was not started."""
        if self.pid is None and self._code is None:
            self._code = -signal.SIGKILL

    def poll(self) -> int | None:
        """Reap it if it ended, after killing its group: its exit code (negative: a signal number), else None.

        The group is killed first: until the leader is reaped, the kernel gives its pid to no other process.
        """
        if self._code is None and self.pid is not None and _has_ended(self.pid):
            kill_group(self.pid)
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its group; if it has ended, kill what is left of that."""
        if self.pid is None:
            self._pending.append(number)
        elif self.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
                return
            with contextlib.suppress(ProcessLookupError):  # it does not lead its group yet
                os.kill(self.pid, number)

    def kill(self) -> int:
        """Kill its group and wait for its end; returns its exit code.

        A process that the kernel holds for longer than a second counts as dead: it is fenced, and dies when it wakes.
        """
        self.signal(signal.SIGKILL)
        deadline = time.monotonic() + _KILL_WAIT_SECONDS
        while (code := self.poll()) is None and self.pid is not None and time.monotonic() < deadline:
            time.sleep(0.001)
        return -signal.SIGKILL if code is None else code

    def close(self) -> None:
        """Close its lifeline: a process that still runs ends."""
        if self.lifeline is not None:
            self.lifeline.close()


def kill_group(pid: int) -> None:
    """Kill the process group of this number, if it exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def reap_orphans(seen: dict[int, float]) -> None:
    """Reap the orphans that this process, a subreaper, has adopted.

    Each Child leads a session, and is reaped by its owner. So are browsers, which have none: what leads a session is
    reaped after a while. `seen`: since when the one that waits has been seen; to be passed again.
    """
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if os.getsid(ended.si_pid) == ended.si_pid:
                now, since = time.monotonic(), seen.get(ended.si_pid)
                if since is None:
                    seen.clear()
                    seen[ended.si_pid] = since = now
                if now < since + _OWNER_SECONDS:
                    return
                seen.clear()
            os.waitpid(ended.si_pid, 0)


def kill_leftover(identity: str, *, seconds: float = 5.0) -> None:
    """Kill a process that an earlier supervisor left, if its identity still matches, and wait for its end."""
    try:
        pid = int(identity.split(":")[1])
    except (IndexError, ValueError):
        return
    deadline = time.monotonic() + seconds
    while identity_of(pid) == identity and time.monotonic() < deadline:
        kill_group(pid)
        time.sleep(0.005)


def _has_ended(pid: int) -> bool:
    """Whether a child that is not reaped yet has ended."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False
