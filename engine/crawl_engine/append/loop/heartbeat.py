"""The appender's heartbeat: a thread that writes its state as long as the loop ticks."""

import threading
import time
from pathlib import Path

from crawl_engine.append.loop.lifeline import Lifeline, LoopControl, Monitor
from crawl_engine.runtime.beat_file import INTERVAL, Beat, BeatWriter, resident_bytes

STALL_SECONDS = 30.0
"""Seconds without a tick of the loop after which the beat stops."""


class AppenderHeartbeat(Monitor):
    """The appender's heartbeat. The loop sets the attributes and ticks."""

    def __init__(self, path: Path, lifeline: Lifeline) -> None:
        self._writer = BeatWriter(path)
        self._lifeline = lifeline
        self._number = 0
        self._ticked_at = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beat", daemon=True)
        self._parts: list[LoopControl] = []

    def start(self) -> None:
        """Start beating."""
        self._thread.start()

    def add_part(self, part: LoopControl) -> None:
        """Report the progress and the problem of another loop of this process, too."""
        self._parts = [*self._parts, part]

    def remove_part(self, part: LoopControl) -> None:
        """Stop reporting on a loop; its counts stay."""
        self._parts = [other for other in self._parts if other is not part]
        self.rows += part.rows
        self.bytes += part.bytes

    def tick(self) -> None:
        """Record that the loop is alive."""
        self._ticked_at = time.monotonic()

    def pause(self, seconds: float) -> None:
        """Sleep, ticking; ends early if the supervisor is gone or a drain is requested."""
        end = time.monotonic() + seconds
        was_draining = self._lifeline.draining
        while (
            (left := end - time.monotonic()) > 0
            and not self._lifeline.supervisor_gone
            and self._lifeline.draining == was_draining
        ):
            self.tick()
            self._lifeline.wait(left)
        self.tick()

    def stop(self) -> None:
        """Write a last beat with the state SHUTDOWN."""
        self.state = "SHUTDOWN"
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1)
        self._write_beat()
        self._writer.close()

    def _run(self) -> None:
        while not self._stopped.is_set():
            if time.monotonic() - self._ticked_at < STALL_SECONDS:
                self._write_beat()
            self._stopped.wait(INTERVAL)

    def _write_beat(self) -> None:
        self._number += 1
        parts, state = self._parts, str(self.state)
        if state == "DONE" and any(part.state != "DONE" for part in parts):
            state = "READY"
        if self._lifeline.draining and state != "SHUTDOWN":
            state = "DRAINING"
        problems = filter(None, [self.problem, *(part.problem for part in parts)])
        try:
            self._writer.write(
                Beat(
                    number=self._number,
                    state=state,
                    rss=resident_bytes(),
                    flush_ms=self.flush_ms,
                    rows=self.rows + sum(part.rows for part in parts),
                    bytes=self.bytes + sum(part.bytes for part in parts),
                    now="; ".join(problems),
                )
            )
        except OSError:
            pass  # a full disk may refuse the first beat; the next one is written anyway
