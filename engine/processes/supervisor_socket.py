"""The lifeline of a supervised process: its end is that of the supervisor."""

import os
import socket

from engine.processes.launcher import TemplateLink


class SupervisorSocket:
    """A socket to the supervisor, which sends the way to each further template."""

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


def send_template(lifeline: socket.socket, control: socket.socket) -> None:
    """Tell a process of the template that follows one that was lost; closes `control`, which is that process's now."""
    with control:
        socket.send_fds(lifeline, [b"t"], [control.fileno()])
