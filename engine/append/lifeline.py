"""What the supervisor tells the appender: to stop, by SIGTERM or the end of the pipe at stdin; and secrets."""

import os
import signal
import threading
import time

from engine.runtime.lifeline_reader import LifelineReader
from engine.runtime.wakeup import Wakeup

EXIT_SECONDS = 2.5
"""Seconds from the end of the pipe to a forced exit, in case the loop hangs."""


class Lifeline:
    """`supervisor_gone`: write nothing more. `draining`: write all remaining rows, then end."""

    def __init__(self, fd: int = 0) -> None:
        self._reader = LifelineReader(fd)
        self._wakeup = Wakeup()
        self.supervisor_gone = False
        self.draining = False
        self.secrets: dict[str, str] = {}
        """Those of the defs, by id; never written to disk."""

    def read_start(self) -> tuple[list[str], str]:
        """The arguments and the settings, once they are sent; empty ones if the pipe ended instead."""
        arguments, settings = self._reader.read_arguments(), self._reader.read_line()
        self.supervisor_gone = settings is None
        return arguments or [], settings or ""

    def install_signal_handlers(self) -> None:
        """Drain on SIGTERM; ignore SIGINT and SIGHUP, which the supervisor handles."""
        self._wakeup.install_signal_wakeup()
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def watch(self) -> None:
        """Start a thread that takes secrets, and waits for the end of the pipe."""
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def wait(self, seconds: float) -> None:
        """Sleep; the end of the pipe or a signal ends the sleep."""
        self._wakeup.wait(seconds)

    def close(self) -> None:
        """Close the wakeup pipe. The pipe from the supervisor stays open: the caller owns it."""
        self._wakeup.close()

    def _watch(self) -> None:
        self._reader.watch(self.secrets.update, lambda: None)
        self.supervisor_gone = True
        self._wakeup.notify()
        time.sleep(EXIT_SECONDS)
        os._exit(0)  # nothing is lost: the next process cuts every file to its record

    def _on_sigterm(self, *_: object) -> None:
        self.draining = True
