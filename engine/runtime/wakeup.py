"""A nudge wakes a sleeper at once: a signal gives it, another thread, or another process that was handed its file."""

import contextlib
import os
import selectors
import signal


class Wakeup:
    """A pipe one thread sleeps on. Nudges given meanwhile are not lost: the next sleep is over at once."""

    def __init__(self) -> None:
        self._read_fd, self.write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self.write_fd, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._read_fd, selectors.EVENT_READ)

    def install_signal_wakeup(self) -> None:
        """Every signal that has a handler in Python is a nudge from now on. Only the main thread may ask for it."""
        signal.set_wakeup_fd(self.write_fd, warn_on_full_buffer=False)

    def notify(self) -> None:
        """Wake the sleeper."""
        notify_fd(self.write_fd)

    def wait(self, seconds: float) -> None:
        """Sleep until a nudge comes, at most so long. Those that came so far are used up."""
        if self._selector.select(seconds):
            with contextlib.suppress(BlockingIOError):
                while os.read(self._read_fd, 4096):
                    pass

    def close(self) -> None:
        """Let go of the pipe; nobody may give or wait any more. Not for one that heeds signals: it lasts to the end."""
        self._selector.close()
        os.close(self._read_fd)
        os.close(self.write_fd)


def notify_fd(file: int) -> None:
    """Nudge whoever sleeps on the other end, if anybody is left there; a pipe full of nudges needs no more."""
    with contextlib.suppress(OSError):
        os.write(file, b"\0")
