"""Starts and ends the forked children of one event loop, with a socket to each."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Any

from engine.processes.child import kill_group
from engine.processes.frame_connection import FrameConnection
from engine.processes.launcher import Launcher, TemplateLink, TemplateLost
from engine.processes.orders import Ended, Started

_KILL_SECONDS = 2.0
"""A killed process must end within them; else the template is stuck."""
_log = logging.getLogger(__name__)


class Fork:
    """One process. `on_end` is called once: it has ended, and what it sent before is read."""

    def __init__(
        self, connection: socket.socket, send_kill: Callable[[], None], on_stuck: Callable[[], None],
        on_end: Callable[[Ended], None],
    ) -> None:  # fmt: skip
        """`on_stuck` is called if its end is not reported in time; it must report it."""
        self.connection = connection
        self.pid: int | None = None
        """None until it has started, and after its end."""
        self.is_killed = False
        self.ended: Ended | None = None
        self._send_kill = send_kill
        self._on_stuck = on_stuck
        self._on_end = on_end
        self._frames: FrameConnection | None = None
        self._is_closed = False
        self._is_finished = False

    @property
    def is_open(self) -> bool:
        """Whether it may get further work."""
        return not (self.is_killed or self._is_closed or self.ended is not None)

    def read_frames(
        self, *, max_bytes: int, on_size: Callable[[int], bool], on_answer: Callable[[memoryview, memoryview], None]
    ) -> FrameConnection:
        """Exchange frames with it (see FrameConnection); it is killed when it closes its socket."""
        self._frames = FrameConnection(
            self.connection, max_bytes=max_bytes, on_size=on_size, on_answer=on_answer, on_closed=self._on_closed
        )
        return self._frames

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if not self.is_killed and self.ended is None:
            self.is_killed = True
            self._send_kill()
            self._expect_end()

    def end(self, ended: Ended) -> None:
        """Note the report of its end."""
        self.ended, self.pid = ended, None
        if self._frames is None or self._is_closed:
            self._finish()
        else:  # what it still sent is read first; a process that it forked may hold its socket
            self._expect_end()

    def close(self) -> None:
        """Ignore its end."""
        self._is_finished = True
        if self._frames is not None:
            self._frames.close()
        else:
            self.connection.close()

    def _on_closed(self) -> None:
        self._is_closed = True
        if self.ended is not None:
            self._finish()
        elif not self._is_finished:
            self._send_kill()
            self._expect_end()

    def _expect_end(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + _KILL_SECONDS
        loop.call_at(due, self._check_end, due)

    def _check_end(self, due: float) -> None:
        if self._is_finished:
            return
        if asyncio.get_running_loop().time() - due > _KILL_SECONDS / 4:
            self._expect_end()  # the loop stood still: the end may be reported
            return
        if self.ended is None:
            self._on_stuck()
        self._finish()

    def _finish(self) -> None:
        if not self._is_finished:
            assert self.ended is not None
            self._is_closed = True
            self._on_end(self.ended)
            self.close()


class Forks:
    """Starts processes of one kind. For one event loop, which alone may call `close`."""

    def __init__(self, link: TemplateLink, entry: str, name: str, *, leads_session: bool = False) -> None:
        """`entry`, `name`, `leads_session`: as in StartOrder."""
        self.link = link
        self._entry = entry
        self._name = name
        self._leads_session = leads_session
        self.losses = 0
        """Templates that were lost so far."""
        self._launcher: Launcher | None = None
        self._forks: dict[int, Fork] = {}

    def start(self, arguments: Mapping[str, Any], files: Mapping[str, int], on_end: Callable[[Ended], None]) -> Fork:
        """A new process, whose files are `connection` and those given. Raises TemplateLost, OSError."""
        launcher = self._launcher
        if launcher is None:
            launcher = self._launcher = self.link.connect()
            asyncio.get_running_loop().add_reader(launcher.control, self._receive)
        ours, number = launcher.start_connected(
            self._entry, self._name, arguments, files, leads_session=self._leads_session
        )
        fork = self._forks[number] = Fork(ours, lambda: launcher.kill(number), self._on_stuck, on_end)
        return fork

    def close(self) -> None:
        """End all processes, without a report."""
        for fork in self._leave_template():
            fork.close()

    def _on_stuck(self) -> None:
        self._lose_template("the process that forks them does not answer")

    def _lose_template(self, reason: str) -> None:
        """Give the template up, and with it all processes: they end, or have ended already."""
        self.losses += 1
        _log.warning("%s processes: %s", self._name, reason)
        for fork in self._leave_template():
            if fork.pid is not None and self._leads_session:
                kill_group(fork.pid)  # the template cannot see to it
            fork.end(Ended(0, signal.SIGKILL, 0))

    def _leave_template(self) -> list[Fork]:
        if self._launcher is not None:
            asyncio.get_running_loop().remove_reader(self._launcher.control)
            self._launcher.close()
            self._launcher = None
        forks, self._forks = list(self._forks.values()), {}
        return forks

    def _receive(self) -> None:
        if self._launcher is None:
            return
        try:
            reports = self._launcher.receive()
        except TemplateLost as lost:
            self._lose_template(str(lost))
            return
        for report in reports:
            if isinstance(report, Started):
                if report.number in self._forks:
                    self._forks[report.number].pid = report.pid
            elif (fork := self._forks.pop(report.number, None)) is not None:
                fork.end(report)
