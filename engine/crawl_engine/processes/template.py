"""The template: an interpreter that has imported the code of all processes, and forks them on order.

It has one thread and no open database: neither survives a fork.
"""

import gc
import importlib
import os
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from msgspec import Struct

from crawl_engine.processes.child import kill_group
from crawl_engine.processes.child_limits import (
    close_inherited_files,
    limit_free_memory,
    set_command_line,
    set_process_name,
)
from crawl_engine.processes.orders import (
    NOT_FORKED,
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
from crawl_engine.processes.start import run_child, spawn_child

_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
_PID = struct.Struct("<q")
_KIB = 1 if sys.platform == "darwin" else 1024


class _Client:
    """Who orders processes; what it ordered ends with it, but for those that are its own children."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.orders = MessageReader(connection)

    def tell(self, report: Report | Ping) -> None:
        with suppress(OSError):  # it is gone, and needs no report
            send_message(self.connection, report)


class _Running(Struct, frozen=True):
    client: _Client
    number: int
    leads_session: bool


class Template:
    """Serves clients until the last one has closed its socket."""

    def __init__(self, control: socket.socket, data: str) -> None:
        """`control`: the socket of the first client, who started the template."""
        self._data = data
        self._clients = {control.fileno(): _Client(control)}
        self._running: dict[int, _Running] = {}
        """By pid."""
        self._wakeup, self._alarm = os.pipe()
        os.set_blocking(self._alarm, False)
        os.set_blocking(self._wakeup, False)

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler the wakeup descriptor is not written
        signal.set_wakeup_fd(self._alarm, warn_on_full_buffer=False)
        while self._clients:
            readable, _, _ = select.select([*self._clients, self._wakeup], [], [])
            if self._wakeup in readable:
                with suppress(BlockingIOError):
                    os.read(self._wakeup, 4096)
                self._reap()
            for client in [self._clients[fd] for fd in readable if fd in self._clients]:
                self._serve(client)

    def _serve(self, client: _Client) -> None:
        orders = client.orders.receive()
        if orders is None:
            self._drop(client)
            return
        for order, files in orders:
            match order:
                case StartOrder():
                    self._start(client, order, files)
                case AdoptOrder():
                    adopted = _Client(socket.socket(fileno=files[0]))
                    self._clients[files[0]] = adopted
                case Ping():
                    client.tell(order)
                case KillOrder():
                    for pid, running in self._running.items():
                        if running.client is client and running.number == order.number:
                            _kill(pid, running)

    def _start(self, client: _Client, order: StartOrder, files: list[int]) -> None:
        try:
            pid = self._create(order, files)
        except OSError:
            client.tell(Ended(order.number, NOT_FORKED, 0))
            return
        finally:
            for fd in files:
                os.close(fd)
        if not order.own:
            self._running[pid] = _Running(client, order.number, order.leads_session)
        client.tell(Started(order.number, pid))

    def _create(self, order: StartOrder, files: list[int]) -> int:
        """A new process; returns its pid. Raises OSError."""
        if sys.platform != "linux":  # forking is not safe once the frameworks of macOS are in use
            return spawn_child(order, files, self._data)
        named = dict(zip(order.files, files, strict=True))
        if order.own:
            return _fork_for_client(order, named)
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            if order.leads_session:
                os.setsid()
            run_child(order, named, parent=parent)
        return pid

    def _reap(self) -> None:
        """Report the processes that have ended, and kill what is left of their sessions."""
        while self._running:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if not pid:
                return
            running = self._running.pop(pid)
            _kill_session(pid, running)
            running.client.tell(Ended(running.number, status, usage.ru_maxrss * _KIB))

    def _drop(self, client: _Client) -> None:
        del self._clients[client.connection.fileno()]
        client.connection.close()
        for pid, running in self._running.items():
            if running.client is client:
                _kill(pid, running)


def _kill(pid: int, running: _Running) -> None:
    """Kill a process that is not reaped, so that the pid is still its own."""
    _kill_session(pid, running)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # it may not lead its session yet


def _kill_session(pid: int, running: _Running) -> None:
    if running.leads_session:
        kill_group(pid)


def _fork_for_client(order: StartOrder, files: dict[str, int]) -> int:
    """Fork twice: the grandchild's parent ends, so its new one is the client, a subreaper. Raises OSError."""
    reader, writer = os.pipe()
    try:
        between = os.fork()
        if not between:
            try:
                grandchild = os.fork()
            except OSError:
                os._exit(1)
            if grandchild:
                os._exit(0)
            signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)  # until their actions are set: ignored, they were lost
            os.setsid()
            os.write(writer, _PID.pack(os.getpid()))  # only now: who knows the pid may signal its group
            run_child(order, files, parent=None)
        os.close(writer)
        writer = -1
        os.waitpid(between, 0)
        data = os.read(reader, _PID.size)
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)
    if not data:
        raise OSError("the second fork failed")
    return int(_PID.unpack(data)[0])


def fork_template(control: socket.socket, data: str, entries: Sequence[str]) -> int:
    """Start a template as a fork of this process, which has one thread and no open database; returns its pid.

    It keeps no file of this process but stderr and `control`. Raises OSError.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (*_IGNORED, signal.SIGCHLD))
    try:
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            close_inherited_files({control.fileno()})
            set_command_line(f"crawl-console template --data {data}")
            _run(control, data, entries)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return pid


def _run(control: socket.socket, data: str, entries: Sequence[str]) -> NoReturn:
    """Import the entries, then serve until the last client is gone."""
    code = 1
    try:
        gc.disable()  # during the imports, which stay in memory
        os.setsid()
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        set_process_name("template")
        limit_free_memory()
        for entry in entries:
            importlib.import_module(entry)
        gc.freeze()
        Template(control, data).serve()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _main() -> None:
    """The arguments: `--data DIR`, which may be empty, and the entries (see OwnTemplate)."""
    control = socket.socket(fileno=os.dup(0))
    close_inherited_files({control.fileno()})
    _run(control, sys.argv[2], sys.argv[3:])


if __name__ == "__main__":
    _main()
