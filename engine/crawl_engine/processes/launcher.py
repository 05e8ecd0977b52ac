"""A client's side of a template: starts and kills processes, hears of their ends."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from crawl_engine.processes.child import Child
from crawl_engine.processes.orders import (
    AdoptOrder,
    Ended,
    KillOrder,
    MessageReader,
    Ping,
    ProcessKind,
    Started,
    StartOrder,
    send_message,
)
from crawl_engine.processes.start import spawn
from crawl_engine.processes.template import fork_template

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop  # the supervisor saves the import

_TEMPLATE = "crawl_engine.processes.template"
_END_SECONDS = 2.0
"""A template ends so long after its last client is gone."""
_log = logging.getLogger(__name__)


LOST = Ended(0, signal.SIGKILL, 0)
"""The end of a process whose template is lost."""


class TemplateLost(Exception):
    """The template has ended, and with it all processes that are not its clients' own."""

    def __init__(self) -> None:
        super().__init__("the process that starts them has ended")


class Launched(Protocol):
    """What a launcher tells of a process that it started."""

    pid: int | None
    is_own: bool
    """Whether it becomes a child of this process."""

    def on_started(self, pid: int) -> None:
        """Note its pid."""

    def on_ended(self, ended: Ended) -> None:
        """Note its end, or that it was not started. Of an own child, the latter alone is told."""


class Launcher:
    """A client of a template, and of the next if that is lost. Its processes end with it, but for own children.

    For one thread. On an event loop it hears of its processes by itself, else by `hear`.
    """

    def __init__(self, link: "TemplateLink", name: str = "") -> None:
        """`name`: of its processes, for the log."""
        self.link = link
        self._name = name
        self.losses = 0
        """Templates that were lost so far."""
        self.heard = 0
        """Messages of this template so far."""
        self._control: socket.socket | None = None
        self._reader: MessageReader
        self._loop: AbstractEventLoop | None = None
        self._last_number = 0
        self._processes: dict[int, Launched] = {}

    @property
    def is_starting(self) -> bool:
        """Whether a process is not reported yet."""
        return any(process.pid is None for process in self._processes.values())

    def connect(self, loop: "AbstractEventLoop | None" = None) -> socket.socket:
        """Have a template; on an event loop, hear of it by itself. Raises TemplateLost, OSError."""
        if self._control is None:
            self._control = self.link.share()
            self._reader = MessageReader(self._control)
            self.heard = 0
            self._loop = loop
            if loop is not None:
                loop.add_reader(self._control, self.hear)
        return self._control

    def start(
        self, process: Launched, kind: ProcessKind, arguments: Mapping[str, Any], files: Mapping[str, int]
    ) -> int:
        """Order a process (see StartOrder); returns its number for `kill`. Raises TemplateLost, OSError."""
        control = self.connect()
        self._last_number += 1
        order = StartOrder(
            number=self._last_number, entry=kind.entry, name=kind.name, arguments=arguments, files=tuple(files),
            own=process.is_own, leads_session=kind.leads_session,
        )  # fmt: skip
        try:
            send_message(control, order, list(files.values()))
        except OSError as error:
            raise TemplateLost from error
        self._processes[self._last_number] = process
        return self._last_number

    def kill(self, number: int) -> None:
        """Kill a process, unless it has ended."""
        if self._control is not None:
            with suppress(OSError):  # the template is gone, and its processes with it
                send_message(self._control, KillOrder(number))

    def ping(self) -> None:
        """Ask the template for a sign of life."""
        if self._control is not None:
            with suppress(OSError):  # `hear` notices that it is gone
                send_message(self._control, Ping())

    def hear(self) -> bool:
        """Tell the processes what the template reports, without waiting; False: there is no template."""
        while self._control is not None:
            try:
                self._control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except OSError:
                pass  # `receive` sees it too
            messages = self._reader.receive()
            if messages is None:
                self.lose("the process that starts them has ended")
                return False
            self.heard += len(messages)
            for report, _ in messages:
                if isinstance(report, Started) and (process := self._processes.get(report.number)) is not None:
                    process.on_started(report.pid)
                    if process.is_own:
                        del self._processes[report.number]
                elif isinstance(report, Ended) and (process := self._processes.pop(report.number, None)) is not None:
                    process.on_ended(report)
        return False

    def lose(self, reason: str) -> None:
        """Give the template up, and with it its processes: they end, or have ended already."""
        self.losses += 1
        if self._name:
            _log.warning("%s processes: %s", self._name, reason)
        processes = list(self._processes.values())
        self.close()
        for process in processes:
            process.on_ended(LOST)

    def close(self) -> None:
        """Leave the template, which ends the processes; none is told."""
        self._processes.clear()
        if self._control is not None:
            if self._loop is not None:
                self._loop.remove_reader(self._control)
            self._control.close()
            self._control = self._loop = None


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

    def replace(self, control: socket.socket) -> None:
        """Use the template that follows one that was lost."""
        with self._lock:
            self._control.close()
            self._control = control

    def close(self) -> None:
        with self._lock:
            self._control.close()


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
