"""The template of extraction processes: one thread, everything imported; forks a process on demand.

A node has threads and open databases, which do not survive a fork; the template has neither.
"""

import argparse
import gc
import os
import select
import signal
import socket
import struct
import sys
from contextlib import suppress
from enum import IntEnum

from msgspec import Struct

from engine.node.extraction.board import ProgressBoard
from engine.node.extraction.child import ExtractionChild
from engine.node.extraction.limits import ExtractionLimits
from engine.node.tuning import tune_garbage_collection
from engine.processes.child_limits import (
    close_inherited_files,
    die_with_parent,
    exit_at_end,
    limit_memory,
    reset_signals,
    set_process_name,
)
from engine.runtime import log_file
from engine.runtime.beat_file import resident_bytes

ORDER = struct.Struct("<BxxxII")
"""Kind of the order, number of the process, its slot on the board."""
REPORT = struct.Struct("<BxxxIqq")
"""Kind of the report, number of the process, its pid or wait status, and its greatest resident memory in bytes."""
NOT_FORKED = -1
"""Wait status of a process that could not be forked."""
_KIB = 1 if sys.platform == "darwin" else 1024


class Order(IntEnum):
    START = 1
    """With the socket of the new process."""
    KILL = 2


class Report(IntEnum):
    STARTED = 1
    ENDED = 2


class _Running(Struct, frozen=True):
    number: int
    pid: int


class ExtractionTemplate:
    """Starts, kills and reaps extraction processes until its socket is closed; then kills them all."""

    def __init__(self, control: socket.socket, board: ProgressBoard, limits: ExtractionLimits) -> None:
        self._control = control
        self._board = board
        self._limits = limits
        self._base = resident_bytes()
        self._running: list[_Running] = []
        self._wakeup, self._alarm = os.pipe()
        os.set_blocking(self._alarm, False)
        os.set_blocking(self._wakeup, False)

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, _ignore_signal)  # a handler of its own, so that the wakeup descriptor is written
        signal.set_wakeup_fd(self._alarm, warn_on_full_buffer=False)
        try:
            while self._serve_once():
                pass
        finally:
            for running in self._running:
                self.kill(running.pid)

    def kill(self, pid: int) -> None:
        """Kill a process that is not reaped, so that its pid cannot be reused."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def _serve_once(self) -> bool:
        readable, _, _ = select.select([self._control.fileno(), self._wakeup], [], [])
        if self._wakeup in readable:
            with suppress(BlockingIOError):
                os.read(self._wakeup, 4096)
            self._reap()
        return self._control.fileno() not in readable or self._take_order()

    def _take_order(self) -> bool:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, ORDER.size, 1)
            while data and len(data) < ORDER.size:
                more = self._control.recv(ORDER.size - len(data))
                data = data + more if more else b""
        except OSError:
            return False
        if not data:
            return False
        kind, number, slot = ORDER.unpack(data)
        if kind == Order.START:
            self._start(number, slot, descriptors[0])
        else:
            for running in self._running:
                if running.number == number:
                    self.kill(running.pid)
        return True

    def _start(self, number: int, slot: int, descriptor: int) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            os.close(descriptor)
            self._report(Report.ENDED, number, NOT_FORKED, 0)
            return
        if not pid:
            self.become_child(descriptor, slot, parent)
        os.close(descriptor)
        self._running.append(_Running(number, pid))
        self._report(Report.STARTED, number, pid, 0)

    def become_child(self, descriptor: int, slot: int, parent: int) -> None:
        """Become an extraction process, in a fork of the template with pid `parent`; never returns."""
        with exit_at_end():
            signal.set_wakeup_fd(-1)
            reset_signals()
            die_with_parent(parent)
            set_process_name("extraction")
            close_inherited_files({descriptor})
            limit_memory(self._limits.growth(max(self._base, resident_bytes())))
            connection = socket.socket(fileno=descriptor)  # stays open: the node kills a process without a socket
            ExtractionChild(connection, self._board.slot(slot), self._limits, self._base).serve()

    def _reap(self) -> None:
        for running in list(self._running):
            pid, status, usage = os.wait4(running.pid, os.WNOHANG)
            if pid:
                self.clean_up(pid)
                self._running.remove(running)
                self._report(Report.ENDED, running.number, status, usage.ru_maxrss * _KIB)

    def clean_up(self, pid: int) -> None:
        """Clean up after a process that has just been reaped."""

    def _report(self, kind: Report, number: int, value: int, memory: int) -> None:
        with suppress(OSError):  # the node is gone; the next read says so
            self._control.sendall(REPORT.pack(kind, number, value, memory))


def run_template(control: int, board: ProgressBoard, limits: ExtractionLimits, parent: int | None) -> None:
    """Run a template until the node is gone; never returns. It dies with `parent`, the process that forked it."""
    with exit_at_end():
        reset_signals()
        if parent is not None:
            die_with_parent(parent)
        set_process_name("extract-tmpl")
        close_inherited_files({control, board.fd})
        with socket.socket(fileno=control) as connection:
            ExtractionTemplate(connection, board, limits).serve()


def _ignore_signal(*_: object) -> None:
    pass


def _main() -> None:
    parser = argparse.ArgumentParser(prog="crawl-console extraction")
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--board", type=int, required=True)
    parser.add_argument("--limits", type=ExtractionLimits.from_json, required=True)
    options = parser.parse_args()
    log_file.log_to_stderr()
    gc.collect()
    tune_garbage_collection()
    run_template(options.control, ProgressBoard(options.board), options.limits, None)


if __name__ == "__main__":
    _main()
