"""Child processes: spawned on a lifeline, reaped, ended. Signals go only to what was started here and is not reaped."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from engine.errors import CrawlError
from engine.model.node import HeartbeatState, Role
from engine.runtime.beat_file import Beat, read_beat
from engine.runtime.process_identity import identity_of

ChildKind = Literal["node", "appender"]

BEAT_TIMEOUT = 1.0
"""Seconds without a new beat that count as one missed timeout."""
MISSED_LIMIT = 3
_RECOVERY_SECONDS = 1.0
"""Ten looks in a row, at the pace of the tick, at a fresh beat: what was missed is forgotten."""
_NEWBORN_SECONDS = 20.0
"""A process that has not beaten yet is given this long: starting on a loaded machine takes its time."""

CRASH_LIMIT = 5
HEALTHY_SECONDS = 60.0
"""A child that lived this long starts its count of crashes anew."""
_KILL_WAIT_SECONDS = 1.0
_MIN_RESTART_DELAY, _MAX_RESTART_DELAY = 0.2, 5.0


def restart_delay(crashes: int) -> float:
    """Seconds before what crashed so often in a row is started again."""
    return min(_MAX_RESTART_DELAY, _MIN_RESTART_DELAY * 2.0 ** (crashes - 1))


_MALLOC_ENV = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_TRIM_THRESHOLD_": "4194304",
    "MALLOC_MMAP_THRESHOLD_": "2097152",
}
"""Read by glibc, ignored elsewhere: what one huge page took is given back, instead of kept once for each thread.

Not smaller: what compressing a group of pages takes must stay at hand, or each group pays for its memory anew.
"""


@dataclass(slots=True)
class HeartbeatMonitor:
    """How a process's beat looks to this observer, by the observer's own clock.

    Silence counts only as far as the observer was awake to hear it: one that was itself stopped blames nobody.
    """

    number: int = -1
    seen_at: float = field(default_factory=time.monotonic)
    observed_at: float | None = None
    silence: float = 0.0
    """Seconds of it since the last beat or timeout."""
    has_beaten: bool = False
    missed: int = 0
    healthy_seconds: float = 0.0
    heart: HeartbeatState = HeartbeatState.NEWBORN
    beat: Beat | None = None

    def observe(self, beat: Beat | None, now: float) -> HeartbeatState:
        """Take one look. ASYSTOLE means dead."""
        passed = min(max(0.0, now - (self.seen_at if self.observed_at is None else self.observed_at)), BEAT_TIMEOUT)
        self.observed_at = now
        if beat is not None and beat.number != self.number:
            self.number, self.seen_at, self.beat, self.has_beaten = beat.number, now, beat, True
            self.silence = 0.0
        else:
            self.silence += passed
        limit = BEAT_TIMEOUT if self.has_beaten else _NEWBORN_SECONDS / MISSED_LIMIT
        if self.silence >= limit - 1e-6:
            self.silence, self.healthy_seconds = 0.0, 0.0
            self.missed += 1
            self.heart = HeartbeatState.ASYSTOLE if self.missed >= MISSED_LIMIT else HeartbeatState.ARRHYTHMIA
        elif self.has_beaten and self.heart is not HeartbeatState.ASYSTOLE:
            self.healthy_seconds = self.healthy_seconds + passed if self.age(now) < BEAT_TIMEOUT / 2 else 0.0
            if self.missed == 0 or self.healthy_seconds >= _RECOVERY_SECONDS - 1e-6:
                self.missed, self.heart = 0, HeartbeatState.HEALTHY
        return self.heart

    def age(self, now: float) -> float:
        """Seconds since the last new beat."""
        return now - self.seen_at


@dataclass(slots=True)
class ChildProcess:
    """One process of ours."""

    kind: ChildKind
    epoch: int
    number: int
    role: Role
    process: subprocess.Popen[bytes]
    beat_path: Path
    started_at: float
    replaces: int | None = None
    crashes: int = 0
    """Deaths in a row along those it replaces."""
    stop_requested: bool = False
    restart_after_exit: bool = False
    """It was told to stop for another to take its place."""
    killed_by_operator: bool = False
    """An operator killed it: it is replaced, but nobody is to blame for its death."""
    reported_failure: bool = False
    """It ended itself and said why."""
    kill_reason: str = ""
    """How long it was silent before it was killed for it."""
    heartbeat: HeartbeatMonitor = field(default_factory=HeartbeatMonitor)
    recorded_heart: HeartbeatState = HeartbeatState.NEWBORN
    """As the table has it."""

    @property
    def name(self) -> str:
        """`n2`, or `appender`."""
        return f"n{self.number}" if self.kind == "node" else "appender"

    @property
    def pid(self) -> int:
        """Its process number."""
        return self.process.pid

    def poll(self) -> int | None:
        """Reap it: its exit code (negative: a signal's number) where it ended."""
        return self.process.poll()

    def check_heartbeat(self, now: float) -> HeartbeatState:
        """Read its beat."""
        return self.heartbeat.observe(read_beat(self.beat_path), now)

    def stop(self) -> None:
        """Ask it to end in order."""
        self.stop_requested = True
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End its whole process group at once."""
        self._signal(signal.SIGKILL)

    def kill_and_wait(self) -> int:
        """End it at once, and see it gone: its exit code.

        What the kernel does not let go of within a second counts as gone: it is fenced, and dies when it wakes.
        """
        self.kill()
        try:
            return self.process.wait(_KILL_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL

    def close(self) -> None:
        """After its end: close the lifeline, take its beat away."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        self.beat_path.unlink(missing_ok=True)

    def _signal(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)


def spawn(
    module: str, arguments: Sequence[str], *, first_line: str, log: Path, wakeup_fd: int | None = None
) -> subprocess.Popen[bytes]:
    """Start `python -m module` in a session of its own, its output in `log`, its stdin the lifeline.

    `-P`: a folder of the user's that is named like one of our packages is not taken for it.

    `first_line` is what it is told, `nudge` the file by which it may wake its supervisor. Raises CrawlError where it
    cannot be started.
    """
    with contextlib.suppress(OSError):
        log.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        with _open_log(log) as output:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    module,
                    *arguments,
                    *([] if wakeup_fd is None else ["--wakeup-fd", str(wakeup_fd)]),
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=[] if wakeup_fd is None else [wakeup_fd],
                env={**_MALLOC_ENV, **os.environ},
            )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died before it was told anything: who watches it will see that
            process.stdin.write(first_line.encode() + b"\n")
            process.stdin.flush()
    except OSError as error:
        raise CrawlError(f"cannot start {module}: {error.strerror}", "Free memory, processes or disk.") from error
    return process


def _open_log(log: Path) -> IO[bytes]:
    """A full disk may have no place for a new log: the process is started all the same."""
    try:
        file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    except OSError:
        file = os.open(os.devnull, os.O_WRONLY)
    return os.fdopen(file, "wb")


def kill_leftover(identity: str, *, seconds: float = 5.0) -> None:
    """End a process that an earlier supervisor left, if its identity still holds, and wait until it is gone."""
    try:
        pid = int(identity.split(":")[1])
    except (IndexError, ValueError):
        return
    deadline = time.monotonic() + seconds
    while identity_of(pid) == identity and time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.005)
