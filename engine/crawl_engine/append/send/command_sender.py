"""Writes the rows of an appender of the type `command` into a program, one JSON line each.

The program answers `{"ack": ID}`: it has that object, and all that it got before it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import orjson

from crawl_engine.append.loop.lifeline import StopSignal
from crawl_engine.append.loop.turns import OutputFailed, SupervisorGone
from crawl_engine.append.send.delivery_batch import DeliveryBatch
from crawl_engine.append.send.output_process import OutputProcess
from crawl_engine.errors import reason_of
from crawl_engine.processes.launcher import TemplateLink, TemplateLost
from crawl_engine.processes.program import Program

CLOSE_SECONDS = 5.0
"""A program has so long to end after its input has."""
_MAX_ANSWER_BYTES = 64 * 1024
_SHOWN_BYTES = 100
_REPORT_SECONDS = 1.0
"""The end of a program is reported so long after that of its output."""
_log = logging.getLogger("appender")


class CommandSender:
    """A `DeliveryTarget` behind the pipes of a program, which is started when it is needed."""

    def __init__(
        self, name: str, link: TemplateLink, load_arguments: Callable[[], Sequence[str]], *, limit: float,
        stop: StopSignal,
    ) -> None:  # fmt: skip
        """`limit`: seconds without an answer. `load_arguments`: the program and its arguments; raises OSError."""
        self._name = name
        self._process = OutputProcess[Program](link, stop)
        self._load_arguments = load_arguments
        self._limit = limit
        self._stop = stop

    def deliver(self, batch: DeliveryBatch, data_def: str) -> None:  # noqa: ARG002 - each object names its own
        """Write the batch, and wait until it is acknowledged. Raises OutputFailed, SupervisorGone."""
        if self._process.has_ended:
            self._process.end()
        program = self._process.current or self._start()
        try:
            self._process.run(self._exchange(program, batch))
        except BaseException:
            self._process.end()  # a late answer would count for the next batch
            raise

    def close(self) -> None:
        """Let the program end by itself; past a limit it is killed. May be called again."""
        program = self._process.current
        if program is not None and not self._stop.supervisor_gone:
            program.close_input()
            with suppress(SupervisorGone):
                if self._process.run(program.wait(CLOSE_SECONDS)) is None:
                    _log.warning("%s: the program did not end with its input; killed", self._name)
        self._process.end()

    def _start(self) -> Program:
        arguments: Sequence[str] = ()
        try:
            arguments = self._load_arguments()
            return self._process.start(lambda launcher: Program(launcher, arguments, "sender"))
        except (OSError, TemplateLost) as error:
            program = arguments[0] if arguments else "the program"
            raise OutputFailed(f"cannot run {program}: {reason_of(error)}") from error

    async def _exchange(self, program: Program, batch: DeliveryBatch) -> None:
        """Its lines go out while answers come in, as neither side may wait for the other."""
        answers = _Answers(batch)
        writing = asyncio.ensure_future(program.write(b"".join([line + b"\n" for line in batch.lines])))
        try:
            while not answers.are_complete:
                before = answers.acknowledged
                async with asyncio.timeout(self._limit):
                    while answers.acknowledged == before and (chunk := await program.read()):
                        answers.add(chunk)
                if answers.acknowledged == before:
                    raise OutputFailed(await self._describe_end(program), delivered=before)
        except TimeoutError:
            text = f"gave no answer for its limit of {self._limit:g} s"
            raise OutputFailed(text, delivered=answers.acknowledged) from None
        finally:
            writing.cancel()

    async def _describe_end(self, program: Program) -> str:
        ended = await program.wait(_REPORT_SECONDS)
        if ended is None:
            return "the program closed its output"
        return program.failure or f"the program ended ({ended.cause}) before it acknowledged all; see `logs` for stderr"


class _Answers:
    """What a program acknowledges of a batch."""

    def __init__(self, batch: DeliveryBatch) -> None:
        self._numbers = {change.row: number for number, change in enumerate(batch.changes, 1)}
        self._received = b""
        self.acknowledged = 0
        """How many changes, from the first on."""

    @property
    def are_complete(self) -> bool:
        return self.acknowledged == len(self._numbers)

    def add(self, chunk: bytes) -> None:
        """Read what the program wrote. Raises OutputFailed."""
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
