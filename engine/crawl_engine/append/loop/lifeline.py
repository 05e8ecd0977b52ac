"""What the supervisor tells the appender: to stop, by SIGTERM or the end of its socket."""

import os
import signal
import threading
import time
from typing import Literal, Protocol

from crawl_engine.processes.launcher import SupervisorSocket
from crawl_engine.runtime.wakeup import Wakeup

LoopState = Literal["STARTING", "READY", "DONE", "SHUTDOWN"]
_SLICE_SECONDS = 0.1
EXIT_SECONDS = 2.5
"""Seconds from the end of the supervisor to a forced exit, in case the loop hangs."""


class StopSignal(Protocol):
    """When a loop ends."""

    @property
    def supervisor_gone(self) -> bool:
        """Write nothing more."""

    @property
    def draining(self) -> bool:
        """Write all remaining rows, then end."""


class Monitor(Protocol):
    """What a loop reports: it sets the attributes and ticks."""

    state: LoopState = "STARTING"
    flush_ms: float = 0.0
    rows: int = 0
    bytes: int = 0
    problem: str = ""
    """What keeps the loop from writing; empty if nothing does."""

    def tick(self) -> None:
        """Record that the loop is alive."""

    def pause(self, seconds: float) -> None:
        """Sleep, ticking; ends early if the supervisor is gone or a drain is requested."""


class Lifeline:
    """`supervisor_gone`: write nothing more. `draining`: write all remaining rows, then end."""

    def __init__(self, supervisor: SupervisorSocket | None = None) -> None:
        self._supervisor = supervisor
        self._wakeup = Wakeup()
        self.supervisor_gone = False
        self.draining = False

    def install_signal_handlers(self) -> None:
        """Drain on SIGTERM; ignore SIGINT and SIGHUP, which the supervisor handles."""
        self._wakeup.install_signal_wakeup()
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def watch(self) -> None:
        """Start a thread that waits for the end of the supervisor."""
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def wait(self, seconds: float) -> None:
        """Sleep; the end of the supervisor or a signal ends the sleep."""
        self._wakeup.wait(seconds)

    def close(self) -> None:
        """Close the wakeup pipe."""
        self._wakeup.close()

    def _watch(self) -> None:
        if self._supervisor is not None:
            self._supervisor.wait_for_end()
        self.supervisor_gone = True
        self._wakeup.notify()
        time.sleep(EXIT_SECONDS)
        os._exit(0)  # nothing is lost: the next process cuts every file to its record

    def _on_sigterm(self, *_: object) -> None:
        self.draining = True


class LoopControl(Monitor):
    """The stop signal and the monitor of a loop in its own thread; another thread may stop it."""

    def __init__(self, lifeline: Lifeline) -> None:
        self._lifeline = lifeline
        self._stopped = threading.Event()

    @property
    def supervisor_gone(self) -> bool:
        """Write nothing more: the supervisor is gone, or the output is removed."""
        return self._lifeline.supervisor_gone or self._stopped.is_set()

    @property
    def draining(self) -> bool:
        """Write all remaining rows, then end."""
        return self._lifeline.draining

    def tick(self) -> None:
        """Do nothing: the process has a heartbeat of its own, which a slow class must not end."""

    def pause(self, seconds: float) -> None:
        """Sleep; ends early if the loop is stopped, the supervisor is gone or a drain is requested."""
        end, was_draining = time.monotonic() + seconds, self.draining
        while (left := end - time.monotonic()) > 0 and not self.supervisor_gone and self.draining == was_draining:
            self._stopped.wait(min(left, _SLICE_SECONDS))

    def stop(self) -> None:
        """End the loop: its output is removed, or the process ends."""
        self._stopped.set()
