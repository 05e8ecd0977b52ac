"""When a loop of the appender ends, and what it reports of itself."""

import threading
import time
from typing import Literal, Protocol

from engine.append.lifeline import Lifeline

LoopState = Literal["STARTING", "READY", "DONE", "SHUTDOWN"]
_SLICE_SECONDS = 0.1


class StopSignal(Protocol):
    """When a loop ends."""

    @property
    def supervisor_gone(self) -> bool:
        """Write nothing more."""

    @property
    def draining(self) -> bool:
        """Write all remaining rows, then end."""


class Monitor(Protocol):
    """A loop sets the attributes and ticks."""

    state: LoopState
    flush_ms: float
    rows: int
    bytes: int
    problem: str

    def tick(self) -> None:
        """Record that the loop is alive."""

    def pause(self, seconds: float) -> None:
        """Sleep, ticking; ends early if the supervisor is gone or a drain is requested."""


class LoopControl:
    """The stop signal and the monitor of a loop in a thread of its own; another thread may stop it."""

    def __init__(self, lifeline: Lifeline) -> None:
        self._lifeline = lifeline
        self._stopped = threading.Event()
        self.state: LoopState = "STARTING"
        self.flush_ms = 0.0
        self.rows = 0
        self.bytes = 0
        self.problem = ""

    @property
    def supervisor_gone(self) -> bool:
        """Write nothing more: the supervisor is gone, or the output is removed."""
        return self._lifeline.supervisor_gone or self._stopped.is_set()

    @property
    def draining(self) -> bool:
        """Write all remaining rows, then end."""
        return self._lifeline.draining

    def tick(self) -> None:
        """Nothing: the heartbeat is that of the process; a slow class must not end it."""

    def pause(self, seconds: float) -> None:
        """Sleep; ends early if the loop is stopped, the supervisor is gone or a drain is requested."""
        end, was_draining = time.monotonic() + seconds, self.draining
        while (left := end - time.monotonic()) > 0 and not self.supervisor_gone and self.draining == was_draining:
            self._stopped.wait(min(left, _SLICE_SECONDS))

    def stop(self) -> None:
        """End the loop: its output is removed, or the process ends."""
        self._stopped.set()
