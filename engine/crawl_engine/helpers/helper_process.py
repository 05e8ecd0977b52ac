"""One process of a helper: start, readiness, signals, and its log."""

import contextlib
import errno
import os
import shlex
import socket
import time
from pathlib import Path

from crawl_engine.errors import CrawlError
from crawl_engine.processes.spawner import Spawner
from crawl_engine.runtime.log_file import open_log
from crawl_engine.settings.declaration import Helper

_READ_BYTES = 1 << 20
_TAIL_BYTES = 4096
_MAX_LINE = 200


class HelperProcess:
    """The program of a helper under its guard, in a process group of its own."""

    def __init__(self, helper: Helper, folder: Path, spawner: Spawner) -> None:
        """Start it. Raises CrawlError if its port is in use, or no process can be started."""
        self.helper = helper
        self.log = log_path(folder, helper.name)
        self.is_ready = False
        self.started_at = time.monotonic()
        self._has_started = False
        self._probe: socket.socket | None = None
        if helper.port is not None and _is_port_taken(helper.port):
            raise CrawlError(f"port {helper.port} of 127.0.0.1 is in use by another program", "Stop that program.")
        with contextlib.suppress(OSError):
            self.log.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            with open_log(self.log) as output:
                output.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {shlex.join(helper.run)}\n".encode())
                output.flush()
                self._offset = self._log_start = os.fstat(output.fileno()).st_size
        except OSError as error:
            raise CrawlError(f"cannot be started: {error.strerror}", "Free memory, processes or disk.") from error
        self.guard = spawner.spawn(
            "crawl_engine.helpers.guard:main", "helper", {"command": list(helper.run)}, log=self.log
        )
        self._tail = b""

    def check_ready(self) -> bool:
        """Whether it is ready now. Never waits."""
        if not self._has_started:
            self._has_started = self._read_started()
        self.is_ready = self._has_started and (
            self._accepts(self.helper.port)
            if self.helper.port is not None
            else self.helper.line is None or self._has_line(self.helper.line)
        )
        return self.is_ready

    def close(self) -> None:
        """After its end: close what was open for it."""
        self._close_probe()
        self.guard.close()

    def describe_end(self, code: int) -> str:
        """How it ended, from the exit code of its guard, with the last line of its output."""
        if not (self._has_started or self._read_started()):
            text = "cannot be run"
        elif code > 128 or code < 0:
            text = f"ended by signal {code - 128 if code > 0 else -code}"
        else:
            text = f"ended with exit code {code}"
        return text + self.quote_last_line()

    def describe_wait(self) -> str:
        """A text: it is not ready in time, what it waited for, and the last line of its output."""
        if self.helper.port is not None:
            missing = f"port {self.helper.port} of 127.0.0.1 accepts no connection"
        else:
            missing = f"its output has no line with {self.helper.line!r}" if self.helper.line else "it does not run"
        return f"not ready after {self.helper.within:g} s: {missing}" + self.quote_last_line()

    def quote_last_line(self) -> str:
        """`; last output: …`, or an empty text."""
        line = self._last_line()
        return f"; last output: {line}" if line else ""

    def _last_line(self) -> str:
        try:
            with self.log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(0, size - _TAIL_BYTES, self._log_start if size >= self._log_start else 0))
                lines = log.read(_TAIL_BYTES).decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")[:_MAX_LINE]

    def _read_started(self) -> bool:
        """Whether its guard has said that the program runs."""
        assert self.guard.lifeline is not None
        try:
            return self.guard.lifeline.recv(1, socket.MSG_DONTWAIT) == b"1"
        except OSError:
            return False

    def _accepts(self, port: int) -> bool:
        """Whether a connection that was begun at this or an earlier call is accepted."""
        if self._probe is None:
            self._probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM | getattr(socket, "SOCK_CLOEXEC", 0))
            self._probe.setblocking(False)
        result = self._probe.connect_ex(("127.0.0.1", port))
        if result in (errno.EINPROGRESS, errno.EALREADY):
            return False
        self._close_probe()
        return result in (0, errno.EISCONN)

    def _close_probe(self) -> None:
        if self._probe is not None:
            self._probe.close()
            self._probe = None

    def _has_line(self, text: str) -> bool:
        """Whether its output since the last call contains the text. A log that was rotated is read from its start."""
        part = text.encode()
        try:
            with self.log.open("rb") as log:
                if log.seek(0, os.SEEK_END) < self._offset:
                    self._offset, self._tail = 0, b""
                log.seek(self._offset)
                block = log.read(_READ_BYTES)
        except OSError:
            return False
        self._offset += len(block)
        block = self._tail + block
        self._tail = block[-len(part) :]
        return part in block


def log_path(folder: Path, name: str) -> Path:
    """The log of a helper in a data dir."""
    return folder / "logs" / f"helper-{name}.log"


def _is_port_taken(port: int) -> bool:
    """Whether a program listens on a port of 127.0.0.1: the helper would seem ready at once, and fail to listen."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
