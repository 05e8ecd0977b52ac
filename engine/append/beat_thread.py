"""The appender's heartbeat: a thread that tells how it is, as long as the loop shows that it goes round."""

import threading
import time
from pathlib import Path
from typing import Literal

from engine.append.lifeline import Lifeline
from engine.runtime.beat_file import INTERVAL, Beat, BeatWriter, resident_bytes

STALL_SECONDS = 30.0
"""Seconds without a tick of the loop after which the beat stops."""


class AppenderHeartbeat:
    """What the beat says; the loop sets it and ticks."""

    def __init__(self, path: Path, lifeline: Lifeline) -> None:
        self._writer = BeatWriter(path)
        self._lifeline = lifeline
        self._number = 0
        self._ticked_at = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beat", daemon=True)
        self.state: Literal["STARTING", "READY", "DONE", "SHUTDOWN"] = "STARTING"
        self.flush_ms = 0.0
        self.rows = 0
        self.bytes = 0
        self.problem = ""
        """What keeps it from writing."""

    def start(self) -> None:
        """Beat from now on."""
        self._thread.start()

    def tick(self) -> None:
        """The loop goes round."""
        self._ticked_at = time.monotonic()

    def pause(self, seconds: float) -> None:
        """Sleep, ticking; shorter where the lifeline is cut or a drain is asked for."""
        end = time.monotonic() + seconds
        asked = self._lifeline.draining
        while (
            (left := end - time.monotonic()) > 0
            and not self._lifeline.supervisor_gone
            and self._lifeline.draining == asked
        ):
            self.tick()
            self._lifeline.wait(left)
        self.tick()

    def stop(self) -> None:
        """One last beat, which says that this is the end."""
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
        state = "DRAINING" if self._lifeline.draining and self.state != "SHUTDOWN" else self.state
        try:
            self._writer.write(
                Beat(
                    number=self._number,
                    state=state,
                    rss=resident_bytes(),
                    flush_ms=self.flush_ms,
                    rows=self.rows,
                    bytes=self.bytes,
                    now=self.problem,
                )
            )
        except OSError:
            pass  # a full disk may refuse the very first record; the next one is tried anyway
