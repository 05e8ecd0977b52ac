"""What the supervisor holds of this process: the pipe at its stdin, and SIGTERM. Both set a flag the loop reads."""

import os
import signal
import threading
import time

from engine.runtime.wakeup import Wakeup

EXIT_SECONDS = 2.5
"""Seconds from the pipe's end to the end of the process, should its loop hang."""


class Lifeline:
    """`cut`: the supervisor is gone, write nothing more. `draining`: write all there is, then end."""

    def __init__(self, file: int = 0) -> None:
        self._fd = file
        self._buffer = b""
        self._wakeup = Wakeup()
        self.supervisor_gone = False
        self.draining = False

    def read_first_line(self) -> str:
        """The first line of the pipe, without its end; blocks for it. Empty: the pipe ended."""
        while b"\n" not in self._buffer:
            piece = os.read(self._fd, 65536)
            if not piece:
                self.supervisor_gone = True
                return ""
            self._buffer += piece
        return self._buffer.partition(b"\n")[0].decode()

    def install_signal_handlers(self) -> None:
        """From now on obey SIGTERM, leave SIGINT and SIGHUP to the supervisor."""
        self._wakeup.install_signal_wakeup()
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def watch(self) -> None:
        """Wait for the pipe's end in a thread of its own."""
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def wait(self, seconds: float) -> None:
        """Sleep, but not past the pipe's end or a signal."""
        self._wakeup.wait(seconds)

    def close(self) -> None:
        """Let go of what it sleeps on; not of the pipe from the supervisor, which it was given."""
        self._wakeup.close()

    def _watch(self) -> None:
        try:
            while os.read(self._fd, 4096):
                pass
        except OSError:
            pass
        self.supervisor_gone = True
        self._wakeup.notify()
        time.sleep(EXIT_SECONDS)
        os._exit(0)  # nothing is lost: the next process cuts every file to what is recorded

    def _on_sigterm(self, *_: object) -> None:
        self.draining = True
