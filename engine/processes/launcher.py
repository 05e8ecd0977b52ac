"""A client's side of a template: starts and kills processes, hears of their ends."""

import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.processes.child import Child
from engine.processes.orders import AdoptOrder, Ended, KillOrder, ReportReader, Started, StartOrder, send_order
from engine.processes.start import spawn

_TEMPLATE = "engine.processes.template"


class TemplateLost(Exception):
    """The template has ended, and with it all processes that are not its clients' own."""

    def __init__(self) -> None:
        super().__init__("the process that starts them has ended")


class Launcher:
    """One client of a template. Not thread-safe. Its processes end with it, but for own children."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self._reports = ReportReader(control)
        self._last_number = 0

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
            send_order(self.control, order, list(files.values()))
        except OSError as error:
            raise TemplateLost from error
        return self._last_number

    def kill(self, number: int) -> None:
        """Kill a process, unless it has ended."""
        try:
            send_order(self.control, KillOrder(number))
        except OSError:
            return  # the template is gone, and its processes with it

    def receive(self) -> list[Started | Ended]:
        """The reports that are there, without waiting. Raises TemplateLost."""
        try:
            return self._reports.receive()
        except EOFError as error:
            raise TemplateLost from error

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
                send_order(self._control, AdoptOrder(), [theirs.fileno()])
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


class OwnTemplate(TemplateLink):
    """A template for this process alone: started at the first need, and again after its death."""

    def __init__(self, entries: Sequence[str]) -> None:
        """`entries`: as for `start_template`."""
        self._entries = entries
        self._template: Child | None = None
        self._lock = threading.RLock()

    def share(self) -> socket.socket:
        """The socket of a further client. Raises TemplateLost, OSError."""
        with self._lock:
            if self._template is None or self._template.poll() is not None:
                self.close()
                pid, self._control = start_template(self._entries)
                self._template = Child(pid=pid)
            return super().share()

    def close(self) -> None:
        """End the template, if one runs; its clients must be closed before."""
        with self._lock:
            if self._template is not None:
                self._control.close()
                self._template.kill()
                self._template = None


def start_template(entries: Sequence[str], data: Path | None = None) -> tuple[int, socket.socket]:
    """Start a template; returns its pid and the socket of its first client. Raises OSError.

    `entries`: modules that it imports, or `module:function` that it calls. It ends when its last client is gone.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            pid = spawn(_TEMPLATE, [*(["--data", str(data)] if data is not None else []), *entries], theirs)
        except OSError:
            ours.close()
            raise
    return pid, ours
