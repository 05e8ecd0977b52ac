"""Runs a user's program between two pipes, in a process that the template forks."""

import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress

from engine.errors import reason_of
from engine.processes.launcher import ForkedProcess, TemplateLink
from engine.processes.start import ChildStart

ENTRY = "engine.processes.program:main"


class Program(ForkedProcess):
    """A program between two pipes; its stderr is that of this process."""

    def __init__(self, link: TemplateLink, command: Sequence[str], name: str) -> None:
        """Start it. Raises TemplateLost, OSError."""
        stdin, ours_in = os.pipe()
        ours_out, stdout = os.pipe()
        self.stdin, self.stdout = os.fdopen(ours_in, "wb", buffering=0), os.fdopen(ours_out, "rb", buffering=0)
        try:
            with os.fdopen(stdin, "rb"), os.fdopen(stdout, "wb"):
                super().__init__(link, ENTRY, name, {"command": command}, {"stdin": stdin, "stdout": stdout})
        except BaseException:
            self.stdin.close()
            self.stdout.close()
            raise

    def close(self) -> None:
        """Kill it with its session, unless it has ended."""
        super().close()
        self.stdin.close()
        self.stdout.close()


def read_failure(connection: socket.socket) -> str:
    """The text `cannot run PROGRAM: REASON`, if a program that has ended could not be run; else empty."""
    with suppress(OSError):
        return connection.recv(1_000, socket.MSG_DONTWAIT).decode()
    return ""


def main(start: ChildStart) -> int:
    """Become the program `command` between the files `stdin` and `stdout`; tell the client if it cannot be run."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)  # a program inherits what is ignored
    os.dup2(start.files["stdin"], 0)
    os.dup2(start.files["stdout"], 1)
    command = start.arguments["command"]
    try:
        os.execvp(command[0], command)
    except (OSError, ValueError) as error:
        os.write(start.files["connection"], f"cannot run {command[0]}: {reason_of(error)}".encode())
        return 127
