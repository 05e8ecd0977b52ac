"""A node's handle of its template: starts and kills extraction processes, reports their ends."""

import os
import signal
import socket
import subprocess
import sys

from msgspec import Struct

from engine.node.extraction.board import ProgressBoard, ProgressSlot
from engine.node.extraction.limits import ExtractionLimits
from engine.node.extraction.template import ORDER, REPORT, Order, Report, run_template
from engine.node.tuning import allowed_cpus, let_run_on

_MODULE = "engine.node.extraction.template"


class Ended(Struct, frozen=True):
    """The end of a process: `status` as from `wait`, and its greatest resident memory in bytes."""

    number: int
    status: int
    memory: int


class Started(Struct, frozen=True):
    number: int
    pid: int


class TemplateLost(Exception):
    """The template has ended, and with it all its processes."""

    def __init__(self) -> None:
        super().__init__("the process that starts them has ended")


class ExtractionLauncher:
    """Not thread-safe. The descriptor of `control` is readable when reports can be received."""

    def __init__(self, limits: ExtractionLimits, module: str = _MODULE) -> None:
        self.limits = limits
        self._module = module
        self._cpus = allowed_cpus()
        self._board = ProgressBoard()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._forked: int | None = None
        self._received = b""

    @property
    def control(self) -> socket.socket | None:
        """The socket to the template; None: none runs."""
        return self._control

    def slot(self, number: int) -> ProgressSlot:
        return self._board.slot(number)

    def fork_template(self) -> None:
        """Fork the template. The caller must have one thread, no database and no event loop."""
        if sys.platform != "linux":  # forking is not safe once the frameworks of macOS are in use
            return
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            ours.close()
            run_template(theirs.detach(), self._board, self.limits, parent)
        theirs.close()
        self._forked, self._control = pid, ours

    def spawn_template(self) -> None:
        """Start a template as a fresh interpreter, from any process. Raises OSError."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, "-P", "-m", self._module),
                        *("--control", str(theirs.fileno()), "--board", str(self._board.fd)),
                        *("--limits", self.limits.to_json()),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), self._board.fd),
                )
        except OSError:
            ours.close()
            raise
        let_run_on(self._process.pid, self._cpus)
        self._control = ours

    def start(self, number: int, slot: int) -> socket.socket:
        """Start a process with this number; returns the socket to it. Raises TemplateLost."""
        if self._control is None:
            raise TemplateLost
        self.slot(slot).clear()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [ORDER.pack(Order.START, number, slot)], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise TemplateLost from error
        return ours

    def kill(self, number: int) -> None:
        """Kill a process, unless it has ended."""
        if self._control is not None:
            try:
                self._control.sendall(ORDER.pack(Order.KILL, number, 0))
            except OSError:
                return  # the template is gone, and its processes with it

    def receive_reports(self) -> list[Started | Ended]:
        """The next reports. Raises TemplateLost, and BlockingIOError or TimeoutError by the mode of `control`."""
        if self._control is None:
            raise TemplateLost
        try:
            data = self._control.recv(4096)
        except (BlockingIOError, TimeoutError):
            raise
        except OSError as error:
            raise TemplateLost from error
        if not data:
            raise TemplateLost
        self._received += data
        whole = len(self._received) // REPORT.size * REPORT.size
        reports, self._received = self._received[:whole], self._received[whole:]
        return [
            Started(number, value) if kind == Report.STARTED else Ended(number, value, memory)
            for kind, number, value, memory in REPORT.iter_unpack(reports)
        ]

    def close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control, self._received = None, b""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._forked is not None:
            os.kill(self._forked, signal.SIGKILL)
            os.waitpid(self._forked, 0)
            self._forked = None
