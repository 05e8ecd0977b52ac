"""The processes that a template forks for one event loop, each at the other end of a socket."""

import asyncio
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Any

from engine.processes.launcher import Launcher, TemplateLink, TemplateLost
from engine.processes.orders import Ended, Started


class Fork:
    """One process. Its end is reported once."""

    def __init__(self, connection: socket.socket, kill: Callable[[], None], on_ended: Callable[[Ended], None]) -> None:
        self.connection = connection
        self.kill = kill
        self.pid: int | None = None
        """None until it has started, and after its end."""
        self._on_ended = on_ended

    def end(self, ended: Ended) -> None:
        """Note its end, with its pid still known."""
        self._on_ended(ended)
        self.pid = None


class Forks:
    """Starts processes of one kind. For one event loop, which alone may call `close`."""

    def __init__(
        self, link: TemplateLink, entry: str, name: str, *, on_lost: Callable[[str], None], leads_session: bool = False
    ) -> None:
        """`entry`, `name`, `leads_session`: as in StartOrder. `on_lost` learns why the template is lost."""
        self._link = link
        self._entry = entry
        self._name = name
        self._on_lost = on_lost
        self._leads_session = leads_session
        self._launcher: Launcher | None = None
        self._forks: dict[int, Fork] = {}

    def start(self, arguments: Mapping[str, Any], files: Mapping[str, int], on_ended: Callable[[Ended], None]) -> Fork:
        """A new process, whose files are `connection` and those given. Raises TemplateLost, OSError."""
        launcher = self._launcher
        if launcher is None:
            launcher = self._launcher = self._link.connect()
            asyncio.get_running_loop().add_reader(launcher.control, self._receive)
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                number = launcher.start(
                    self._entry, self._name, arguments, {"connection": theirs.fileno(), "output": 2, **files},
                    leads_session=self._leads_session,
                )  # fmt: skip
            except TemplateLost:
                ours.close()
                raise
        fork = self._forks[number] = Fork(ours, lambda: launcher.kill(number), on_ended)
        return fork

    def lose_template(self, reason: str) -> None:
        """Give the template up, and with it all processes: they end, or have ended already."""
        forks = list(self._forks.items())
        self.close()
        for number, fork in forks:
            fork.end(Ended(number, signal.SIGKILL, 0))
        self._on_lost(reason)

    def close(self) -> None:
        """End all processes, without a report."""
        if self._launcher is not None:
            asyncio.get_running_loop().remove_reader(self._launcher.control)
            self._launcher.close()
            self._launcher = None
        self._forks.clear()

    def _receive(self) -> None:
        if self._launcher is None:
            return
        try:
            reports = self._launcher.receive()
        except TemplateLost as lost:
            self.lose_template(str(lost))
            return
        for report in reports:
            if isinstance(report, Started):
                if report.number in self._forks:
                    self._forks[report.number].pid = report.pid
            elif (fork := self._forks.pop(report.number, None)) is not None:
                fork.end(report)
