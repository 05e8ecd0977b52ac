"""Writes the rows of an appender of the type `command` into a program, one JSON line each.

The program answers `{"ack": ID}`: it has that object, and all that it got before it.
"""

import logging
import os
import selectors
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import orjson

from engine.append.loop.lifeline import StopSignal
from engine.append.loop.turns import OutputFailed, SupervisorGone
from engine.append.send.delivery_batch import DeliveryBatch
from engine.errors import reason_of
from engine.processes.launcher import TemplateLink, TemplateLost
from engine.processes.program import Program, read_failure

CLOSE_SECONDS = 5.0
"""A program has so long to end after its input has."""
_SLICE_SECONDS = 0.1
_MAX_ANSWER_BYTES = 64 * 1024
_SHOWN_BYTES = 100
_log = logging.getLogger("appender")


class CommandSender:
    """A `DeliveryTarget` behind the pipes of a program, which is started when it is needed."""

    def __init__(
        self, name: str, link: TemplateLink, load_arguments: Callable[[], Sequence[str]], *, limit: float,
        stop: StopSignal,
    ) -> None:  # fmt: skip
        """`limit`: seconds without an answer. `load_arguments`: the program and its arguments; raises OSError."""
        self._name = name
        self._link = link
        self._load_arguments = load_arguments
        self._limit = limit
        self._stop = stop
        self._process: Program | None = None

    def deliver(self, batch: DeliveryBatch, data_def: str) -> None:  # noqa: ARG002 - each object names its own
        """Write the batch, and wait until it is acknowledged. Raises OutputFailed, SupervisorGone."""
        process = self._ensure_started()
        exchange = _ProgramExchange(process, batch, self._limit, self._stop)
        try:
            exchange.run()
        except OutputFailed:
            self._kill()  # a late answer would count for the next batch
            raise
        except EOFError:
            raise OutputFailed(self._describe_end(process), delivered=exchange.acknowledged) from None
        except BaseException:
            self._kill()
            raise

    def close(self) -> None:
        """Let the program end by itself; past a limit it is killed. May be called again."""
        process = self._process
        if process is not None and not self._stop.supervisor_gone:
            process.stdin.close()
            if process.wait(CLOSE_SECONDS) is None:
                _log.warning("%s: the program did not end with its input; killed", self._name)
        self._kill()

    def _ensure_started(self) -> Program:
        if self._process is not None and self._process.poll() is not None:
            self._kill()  # it ended between two batches
        if self._process is None:
            arguments: Sequence[str] = ()
            try:
                arguments = self._load_arguments()
                self._process = Program(self._link, arguments, "sender")
            except (OSError, TemplateLost) as error:
                program = arguments[0] if arguments else "the program"
                raise OutputFailed(f"cannot run {program}: {reason_of(error)}") from error
            for pipe in (self._process.stdin, self._process.stdout):
                os.set_blocking(pipe.fileno(), False)
        return self._process

    def _describe_end(self, process: Program) -> str:
        ended = process.wait()
        failure = read_failure(process.connection) if ended is not None else ""
        self._kill()
        if ended is None:
            return "the program closed its output"
        return failure or f"the program ended ({ended.cause}) before it acknowledged all; see `logs` for stderr"

    def _kill(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


class _ProgramExchange:
    """One batch: its lines go out while answers come in, as neither side may wait for the other."""

    def __init__(self, process: Program, batch: DeliveryBatch, limit: float, stop: StopSignal) -> None:
        self._stdin, self._stdout = process.stdin, process.stdout
        self._left = memoryview(b"".join([line + b"\n" for line in batch.lines]))
        self._numbers = {change.row: number for number, change in enumerate(batch.changes, 1)}
        self._limit = limit
        self._stop = stop
        self._received = b""
        self.acknowledged = 0
        """How many changes, from the first on."""

    def run(self) -> None:
        """Return when all is acknowledged. Raises OutputFailed, SupervisorGone, and EOFError if the program ended."""
        deadline = time.monotonic() + self._limit
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            selector.register(self._stdin, selectors.EVENT_WRITE)
            while self.acknowledged < len(self._numbers):
                if self._stop.supervisor_gone:
                    raise SupervisorGone
                if time.monotonic() >= deadline:
                    raise OutputFailed(
                        f"gave no answer for its limit of {self._limit:g} s", delivered=self.acknowledged
                    )
                before = self.acknowledged
                for key, _ in selector.select(_SLICE_SECONDS):
                    if key.fileobj is self._stdout:
                        self._read()
                    elif not self._write():
                        selector.unregister(self._stdin)
                if self.acknowledged > before:
                    deadline = time.monotonic() + self._limit

    def _write(self) -> bool:
        """Write as much as the pipe takes; False: everything is written."""
        try:
            written = os.write(self._stdin.fileno(), self._left[:65_536])
        except BlockingIOError:
            return True
        except BrokenPipeError:  # it has ended, or closed its input: the other pipe says which
            written = len(self._left)
        self._left = self._left[written:]
        return bool(self._left)

    def _read(self) -> None:
        try:
            chunk = os.read(self._stdout.fileno(), 65_536)
        except BlockingIOError:
            return
        if not chunk:
            raise EOFError
        *lines, self._received = (self._received + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                self._acknowledge(line)
        if len(self._received) > _MAX_ANSWER_BYTES:
            raise self._invalid(self._received)

    def _acknowledge(self, line: bytes) -> None:
        id_: Any = None
        with suppress(ValueError, LookupError, TypeError):
            id_ = orjson.loads(line)["ack"]
        number = self._numbers.get(id_) if type(id_) is int else None
        if number is None:
            raise self._invalid(line)
        self.acknowledged = max(self.acknowledged, number)

    def _invalid(self, line: bytes) -> OutputFailed:
        shown = line[:_SHOWN_BYTES].decode("utf-8", "replace")
        message = f'answered {shown!r}, where {{"ack": ID}} with the id of an object that it got must stand'
        return OutputFailed(message, delivered=self.acknowledged)
