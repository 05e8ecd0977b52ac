"""Runs a user's program between two pipes, in a process that the template forks."""

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress

from crawl_engine.errors import reason_of
from crawl_engine.processes.launcher import Launcher
from crawl_engine.processes.orders import ProcessKind
from crawl_engine.processes.start import ChildStart
from crawl_engine.processes.worker import LaunchedProcess

_ENTRY = "crawl_engine.processes.program:main"
_CHUNK_BYTES = 65_536


class Program(LaunchedProcess):
    """A program between two pipes; its stderr is that of this process."""

    def __init__(self, launcher: Launcher, command: Sequence[str], name: str) -> None:
        """Start it. Raises TemplateLost, OSError."""
        self.failure = ""
        """Why it could not be run, as `cannot run PROGRAM: REASON`; known after its end."""
        stdin, self._stdin = os.pipe()
        self._stdout, stdout = os.pipe()
        try:
            kind = ProcessKind(_ENTRY, name, leads_session=True)
            super().__init__(launcher, kind, {"command": command}, {"stdin": stdin, "stdout": stdout})
        except BaseException:
            os.close(self._stdin)
            os.close(self._stdout)
            raise
        finally:
            os.close(stdin)
            os.close(stdout)
        self._readable, self._writable = asyncio.Event(), asyncio.Event()
        for pipe in (self._stdin, self._stdout):
            os.set_blocking(pipe, False)

    async def write(self, data: bytes) -> None:
        """Write to its input; in vain if it has closed that."""
        rest = memoryview(data)
        while rest and self._stdin >= 0:
            try:
                rest = rest[os.write(self._stdin, rest[:_CHUNK_BYTES]) :]
            except BlockingIOError:
                self._writable.clear()
                self._loop.add_writer(self._stdin, self._on_writable)
                await self._writable.wait()
            except OSError:
                return

    async def read(self) -> bytes:
        """What it writes next; empty: it has closed its output."""
        while self._stdout >= 0:
            try:
                return os.read(self._stdout, _CHUNK_BYTES)
            except BlockingIOError:
                self._readable.clear()
                self._loop.add_reader(self._stdout, self._on_readable)
                await self._readable.wait()
            except OSError:
                break
        return b""

    def close_input(self) -> None:
        """End its input."""
        if self._stdin >= 0:
            self._on_writable()
            os.close(self._stdin)
            self._stdin = -1

    def close(self) -> None:
        self.close_input()
        if self._stdout >= 0:
            self._on_readable()
            os.close(self._stdout)
            self._stdout = -1
        super().close()

    def _on_readable(self) -> None:
        self._loop.remove_reader(self._stdout)
        self._readable.set()

    def _on_writable(self) -> None:
        self._loop.remove_writer(self._stdin)
        self._writable.set()

    def _finish(self) -> None:
        if not self._is_finished:
            with suppress(OSError):
                self.failure = self.connection.recv(1_000, socket.MSG_DONTWAIT).decode()
        super()._finish()


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
