"""A client's side of a template: starts and kills processes, hears of their ends."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.processes.child import Child, kill_group
from engine.processes.orders import (
    AdoptOrder,
    Ended,
    KillOrder,
    MessageReader,
    Ping,
    Report,
    Started,
    StartOrder,
    send_message,
)
from engine.processes.start import spawn
from engine.processes.template import fork_template

_TEMPLATE = "engine.processes.template"
_REPORT_SECONDS = 1.0
"""The end of a process is reported so long after that of its sockets."""
_END_SECONDS = 2.0
"""A template ends so long after its last client is gone."""


class TemplateLost(Exception):
    """The template has ended, and with it all processes that are not its clients' own."""

    def __init__(self) -> None:
        super().__init__("the process that starts them has ended")


class Launcher:
    """One client of a template. Not thread-safe. Its processes end with it, but for own children."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self._reader = MessageReader(control)
        self._last_number = 0
        self.heard = 0
        """Messages of the template so far."""

    def start(
        self, entry: str, name: str, arguments: Mapping[str, Any], files: Mapping[str, int],
        *, own: bool = False, leads_session: bool = False,
    ) -> int:  # fmt: skip
        """Order a process (see StartOrder); returns the number that its reports have. Raises TemplateLost."""
        self._last_number += 1
        order = StartOrder(
            number=self._last_number, entry=entry, name=name, arguments=arguments, files=tuple(files),
            own=own, leads_session=leads_session,
        )  # fmt: skip
        try:
            send_message(self.control, order, list(files.values()))
        except OSError as error:
            raise TemplateLost from error
        return self._last_number

    def start_connected(
        self, entry: str, name: str, arguments: Mapping[str, Any], files: Mapping[str, int], *, leads_session: bool
    ) -> tuple[socket.socket, int]:
        """Order a process with a socket, its file `connection`; its output goes to stderr. Raises TemplateLost."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                number = self.start(
                    entry, name, arguments, {"connection": theirs.fileno(), "output": 2, **files},
                    leads_session=leads_session,
                )  # fmt: skip
            except TemplateLost:
                ours.close()
                raise
        return ours, number

    def kill(self, number: int) -> None:
        """Kill a process, unless it has ended."""
        try:
            send_message(self.control, KillOrder(number))
        except OSError:
            return  # the template is gone, and its processes with it

    def ping(self) -> None:
        """Ask the template for a sign of life."""
        with suppress(OSError):  # `receive` says that it is gone
            send_message(self.control, Ping())

    def receive(self) -> list[Report]:
        """The reports that are there, without waiting. Raises TemplateLost."""
        try:
            self.control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError as error:
            raise TemplateLost from error
        messages = self._reader.receive()
        if messages is None:
            raise TemplateLost
        self.heard += len(messages)
        return [report for report, _ in messages if isinstance(report, Report)]

    def close(self) -> None:
        self.control.close()


class TemplateLink:
    """A way to the template for a whole process. Thread-safe."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._lock = threading.RLock()

    def share(self) -> socket.socket:
        """The socket of a further client, for this process or another. Raises TemplateLost."""
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            try:
                send_message(self._control, AdoptOrder(), [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise TemplateLost from error
        return ours

    def connect(self) -> Launcher:
        """A further client in this process. Raises TemplateLost."""
        return Launcher(self.share())

    def replace(self, control: socket.socket) -> None:
        """Use the template that follows one that was lost."""
        with self._lock:
            self._control.close()
            self._control = control

    def close(self) -> None:
        with self._lock:
            self._control.close()


class ForkedProcess:
    """A process with a client of its own. For one thread at a time."""

    def __init__(
        self, link: TemplateLink, entry: str, name: str, arguments: Mapping[str, Any], files: Mapping[str, int]
    ) -> None:
        """Start it. `entry`, `name`, `arguments`: as in StartOrder. Raises TemplateLost, OSError."""
        self._launcher = link.connect()
        try:
            self.connection, self._number = self._launcher.start_connected(
                entry, name, arguments, files, leads_session=True
            )
        except (OSError, TemplateLost):
            self._launcher.close()
            raise
        self._pid: int | None = None
        self._ended: Ended | None = None

    def poll(self) -> Ended | None:
        """How it ended; None while it runs."""
        if self._ended is None:
            try:
                reports = self._launcher.receive()
            except TemplateLost:
                if self._pid is not None:
                    kill_group(self._pid)  # the template cannot see to it
                reports = [Ended(0, signal.SIGKILL, 0)]
            for report in reports:
                if isinstance(report, Started):
                    self._pid = report.pid
                else:
                    self._ended = report
        return self._ended

    def wait(self, seconds: float = _REPORT_SECONDS) -> Ended | None:
        """Wait for its end, at most so long; how it ended."""
        deadline = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        return self._ended

    def close(self) -> None:
        """Kill it with its session, unless it has ended, and wait for that: it sees no socket or pipe closed."""
        if self.poll() is None:
            self._launcher.kill(self._number)
            self.wait()
        self._launcher.close()
        self.connection.close()


class SupervisorSocket:
    """The lifeline of a supervised process: a socket to the supervisor, which sends the way to each new template."""

    def __init__(self, fd: int, link: TemplateLink | None = None) -> None:
        self._connection = socket.socket(fileno=fd)
        self._link = link

    def wait_for_end(self) -> None:
        """Wait until the supervisor is gone."""
        while True:
            try:
                data, files, _, _ = socket.recv_fds(self._connection, 1, 1)
            except OSError:
                return
            if not data:
                return
            for fd in files:
                os.set_inheritable(fd, False)
                if self._link is not None:
                    self._link.replace(socket.socket(fileno=fd))


class OwnTemplate(TemplateLink):
    """A template of this process: started at the first need, and again after its death."""

    def __init__(self, entries: Sequence[str], data: Path | None = None) -> None:
        """`entries`: modules that it imports. `data`: the data dir, absolute."""
        self._data = str(data or "")
        self._entries = entries
        self._process: Child | None = None
        self._lock = threading.RLock()

    @property
    def pid(self) -> int | None:
        """None before its first start."""
        return self._process.pid if self._process is not None else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def share(self) -> socket.socket:
        """The socket of a further client. Raises TemplateLost, OSError."""
        with self._lock:
            if self.is_running:
                with suppress(TemplateLost):  # it is ending
                    return super().share()
            self._start(lambda control: spawn(_TEMPLATE, ["--data", self._data, *self._entries], control))
            return super().share()

    def fork(self) -> None:
        """Start it as a fork of this process, which has one thread and no open database. Raises OSError."""
        self._start(lambda control: fork_template(control, self._data, self._entries))

    def _start(self, create: Callable[[socket.socket], int]) -> None:
        self.close()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = Child(pid=create(theirs))

    def kill(self) -> None:
        """Kill a template that hangs, without waiting: its clients notice, and the next need starts another."""
        with self._lock:
            if self._process is not None:
                self._process.signal(signal.SIGKILL)

    def close(self) -> None:
        """End the template, if one runs, with what it has forked for clients; they must be closed before."""
        with self._lock:
            if self._process is None:
                return
            self._control.close()
            deadline = time.monotonic() + _END_SECONDS
            while self.is_running and time.monotonic() < deadline:
                time.sleep(0.002)
            self._process.kill()
            self._process = None
