"""A self-pipe that wakes a sleeping loop from a signal handler, thread or child process."""

import contextlib
import os
import selectors
import signal


class Wakeup:
    """A pipe that one thread sleeps on. A notification sent while it is awake ends the next sleep at once."""

    def __init__(self) -> None:
        self._read_fd, self.write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self.write_fd, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._read_fd, selectors.EVENT_READ)

    def install_signal_wakeup(self) -> None:
        """Have every signal with a Python handler wake the sleeper. Call it from the main thread."""
        signal.set_wakeup_fd(self.write_fd, warn_on_full_buffer=False)

    def notify(self) -> None:
        """Wake the sleeper."""
        notify_fd(self.write_fd)

    def wait(self, seconds: float) -> None:
        """Sleep until a notification comes, at most so long; consumes all notifications sent so far."""
        if self._selector.select(seconds):
            with contextlib.suppress(BlockingIOError):
                while os.read(self._read_fd, 4096):
                    pass

    def close(self) -> None:
        """Close the pipe; nothing may notify or wait after that. Not for one installed for signals."""
        self._selector.close()
        os.close(self._read_fd)
        os.close(self.write_fd)


def notify_fd(fd: int) -> None:
    """Wake the sleeper at the other end, if it still exists; a full pipe needs no further byte."""
    with contextlib.suppress(OSError):
        os.write(fd, b"\0")
