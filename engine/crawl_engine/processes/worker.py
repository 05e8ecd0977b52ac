"""Processes that an event loop starts, asks and kills: `Worker`, and what it shares with programs."""

import asyncio
import logging
import socket
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from crawl_engine.processes.child import kill_group
from crawl_engine.processes.clock import QuestionClock
from crawl_engine.processes.frames import PREFIX, Encodable, InvalidAnswer, encode_frame
from crawl_engine.processes.launcher import LOST, Launcher, TemplateLost
from crawl_engine.processes.orders import Ended, ProcessKind
from crawl_engine.runtime.beat_file import resident_bytes, run_delay

_KILL_SECONDS = 2.0
"""A killed process must end within them; else the template is stuck."""
_CLOSED_SECONDS = 1.0
"""A process that has closed its socket has so long to end."""
_WATCH_SECONDS = 0.05
"""Seconds between two looks at the memory of a working process."""
_SMALL_BYTES = 65_536
"""Answers up to this size are read whether there is room or not."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_log = logging.getLogger(__name__)
Answer = TypeVar("Answer")


class LaunchedProcess:
    """One process of an event loop, with a socket to it."""

    is_own = False

    def __init__(
        self, launcher: Launcher, kind: ProcessKind, arguments: Mapping[str, Any] = _NOTHING,
        files: Mapping[str, int] = _NOTHING,
    ) -> None:  # fmt: skip
        """Start it; its files are `connection` and those given. Raises TemplateLost, OSError."""
        self._launcher = launcher
        self._kind = kind
        self.pid: int | None = None
        """None until it has started, and after its end."""
        self.is_killed = False
        self.reason = ""
        """Why it was killed."""
        self.ended: Ended | None = None
        self.key: Hashable = None
        """What it was started for, and who uses it now (see Pool)."""
        self.serves: list[Any] = []
        self.on_finish: Callable[[], None] | None = None
        """Called once it has ended, and what it sent before is read."""
        self._is_closed = True
        """Whether nothing more comes from its socket."""
        self._is_finished = False
        self._finished = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.connection, theirs = socket.socketpair()
        with theirs:
            try:
                given = {"connection": theirs.fileno(), "output": 2, **files}
                launcher.connect(self._loop)
                self._number = launcher.start(self, kind, {**arguments}, given)
            except (OSError, TemplateLost):
                self.connection.close()
                raise

    @property
    def is_open(self) -> bool:
        """Whether it may get further work."""
        return not self.is_killed and self.ended is None

    def kill(self, reason: str = "") -> None:
        """Kill it, unless it has ended."""
        self.reason = self.reason or reason
        if not self.is_killed and self.ended is None:
            self.is_killed = True
            self._launcher.kill(self._number)
            self._expect_end()

    async def wait(self, seconds: float | None = None) -> Ended | None:
        """How it ended; None: it runs after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._finished.wait()
        return self.ended

    async def end(self) -> Ended | None:
        """Kill it, unless it has ended, and wait for its end."""
        self.kill()
        return await self.wait()

    def close(self) -> None:
        """Ignore its end."""
        self._release()

    def on_started(self, pid: int) -> None:
        self.pid = pid

    def on_ended(self, ended: Ended) -> None:
        """Note the report of its end."""
        if ended is LOST and self._kind.leads_session and self.pid is not None:
            kill_group(self.pid)  # the template cannot see to it
        self.ended, self.pid = ended, None
        if self._is_closed:
            self._finish()
        else:  # what it still sent is read first; a process that it forked may hold its socket
            self._expect_end()

    def _expect_end(self, seconds: float = _KILL_SECONDS) -> None:
        due = self._loop.time() + seconds
        self._loop.call_at(due, self._check_end, due)

    def _check_end(self, due: float) -> None:
        if self._is_finished:
            return
        if self._loop.time() - due > _KILL_SECONDS / 4:
            self._expect_end()  # the loop stood still: the end may be reported
        elif self.ended is not None:
            self._finish()
        elif self.is_killed:
            self._launcher.lose("the process that forks them does not answer")
            self._finish()
        else:
            self.kill("it closed the connection to its process")

    def _finish(self) -> None:
        """It has ended, and what it sent before is read."""
        if not self._is_finished:
            self._release()
            self._on_finished()

    def _on_finished(self) -> None:
        if self.on_finish is not None:
            self.on_finish()

    def _release(self) -> None:
        self.ended = self.ended or LOST
        self._is_finished = True
        self._finished.set()
        self.connection.close()


class AnswerRoom(Protocol):
    """The bytes that an answer may take in the memory of the client."""

    def try_grow(self, count: int) -> bool: ...
    async def grow(self, count: int) -> None: ...
    def release(self) -> None: ...


class WorkerEnded(Exception):
    """A worker ended, or was killed, before it answered. The message says why."""

    def __init__(self, worker: "Worker", *, is_late: bool, is_first: bool) -> None:
        """`is_late`: the question took too long. `is_first`: the worker had got no other before it."""
        assert worker.ended is not None
        super().__init__(worker.reason or f"its process ended ({worker.ended.cause})")
        self.ended = worker.ended
        self.is_late = is_late
        self.is_first = is_first


class Question(Generic[Answer]):
    """A question to a worker. It may be asked again, of another one."""

    room: AnswerRoom | None = None
    """Counts the bytes of the answer; its creator releases it."""
    room_seconds: float | None = None
    """The answer may wait so long for room. That does not count as time of the question."""
    waited = 0.0
    """Seconds that it waited."""
    is_late = False
    clock: QuestionClock | None = None
    """None until it is worked on."""
    answered: asyncio.Future[Answer]

    def __init__(
        self, header: Encodable, body: bytes = b"", *, seconds: float,
        read: Callable[[memoryview, memoryview], Answer] | None = None,
    ) -> None:  # fmt: skip
        """`seconds`: the time until the answer. `read`: decodes it; raises InvalidAnswer."""
        self.header = header
        self.body = body
        self.seconds = seconds
        self._read = read

    def encode(self, number: int) -> list[bytes]:
        """The frame to send, perhaps behind others."""
        return encode_frame(self.header, self.body, number)

    def read(self, header: memoryview, body: memoryview) -> Answer | None:
        """The answer; None: it comes later, this is a question of the worker. Raises InvalidAnswer."""
        assert self._read is not None
        return self._read(header, body)

    def finish(self, answer: Answer | WorkerEnded) -> None:
        """Pass on the answer, unless its receiver has gone."""
        if self.answered.done():
            return
        if isinstance(answer, WorkerEnded):
            self.answered.set_exception(answer)
        else:
            self.answered.set_result(answer)


class Worker(LaunchedProcess):
    """A process that answers questions in frames, several at once where it can. It is killed when it closes its socket.

    Of one that works on one after another, the time of a question starts with the answer to the one before.
    """

    def __init__(
        self, launcher: Launcher, kind: ProcessKind, arguments: Mapping[str, Any] = _NOTHING,
        files: Mapping[str, int] = _NOTHING, *, max_bytes: int, is_serial: bool = True, memory: int | None = None,
        has_begun: Callable[[], bool] = lambda: True,
    ) -> None:  # fmt: skip
        """Start it. Raises TemplateLost, OSError.

        `max_bytes`: of one answer. `memory`: resident bytes that it may have. `has_begun`: as of QuestionClock.
        """
        super().__init__(launcher, kind, arguments, files)
        self._is_serial = is_serial
        self._memory = memory
        self._has_begun = has_begun
        self._last_question = 0
        self._is_closed = False
        self._memory_timer: asyncio.TimerHandle | None = None
        self.questions: dict[int, Question[Any]] = {}
        """Those that it has, in the order in which it got them."""
        self.is_broken = False
        """Whether it sent an invalid answer: what it sends is ignored."""
        self.received = 0
        """Bytes so far."""
        self._max_bytes = max_bytes
        self._unsent: list[bytes] = []
        self._transport: Any = None  # uvloop's is no subclass
        self.connection.setblocking(False)
        self._opening = self._loop.create_task(self._open())

    @property
    def is_open(self) -> bool:
        return super().is_open and not self._is_closed

    @property
    def resident_bytes(self) -> int:
        """Its memory; 0 if it does not run."""
        return 0 if self.pid is None else resident_bytes(self.pid)

    async def ask(self, question: Question[Answer]) -> Answer:
        """The answer. Raises WorkerEnded, and TimeoutError if it gets no room."""
        self._send(question)
        return await question.answered

    def _send(self, question: Question[Any]) -> None:
        question.answered = self._loop.create_future()
        question.is_late, question.clock = False, None
        self._last_question += 1
        self.questions[self._last_question] = question
        if self._is_finished:  # it has ended since it was chosen
            self._fail_questions()
            return
        if not self._is_serial or len(self.questions) == 1:
            self._start_time(question)
        if self._memory is not None and self._memory_timer is None:
            self._memory_timer = self._loop.call_later(_WATCH_SECONDS, self._watch_memory)
        self._write(question.encode(self._last_question))

    def close(self) -> None:
        """Ignore its end; what it was asked is cancelled."""
        for question in self.questions.values():
            question.answered.cancel()
        super().close()

    def reply(self, question: Question[Any], header: Encodable) -> None:
        """Answer what it asked about a question, unless it is no longer worked on; its time goes on."""
        if self.is_open and (number := next((n for n, one in self.questions.items() if one is question), 0)):
            self._pause(question, paused=False)
            self._write(encode_frame(header, b"", number))

    def _refuse(self, reason: str) -> None:
        """Kill it for an invalid answer, and ignore what it sends."""
        _log.error("%s process %s: invalid answer: %s", self._kind.name, self.pid, reason)
        self.is_broken = True
        self.kill("its process sent an invalid answer")

    def on_closed(self) -> None:
        """Note that nothing more comes."""
        self._is_closed = True
        if self.ended is not None:
            self._finish()
        elif not self._is_finished:
            self._expect_end(_CLOSED_SECONDS)

    def _on_finished(self) -> None:
        self._fail_questions()
        super()._on_finished()

    def _release(self) -> None:
        for question in self.questions.values():
            self._stop_time(question)
        if self._memory_timer is not None:
            self._memory_timer.cancel()
        self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()
        super()._release()

    def _fail_questions(self) -> None:
        questions, self.questions = list(self.questions.values()), {}
        for question in questions:
            question.finish(WorkerEnded(self, is_late=question.is_late, is_first=question is questions[0]))

    def _start_time(self, question: Question[Any]) -> None:
        question.clock = QuestionClock(
            self._loop, question.seconds, has_begun=self._has_begun, received=lambda: self.received,
            run_delay=lambda: 0.0 if self.pid is None else run_delay(self.pid),
            on_expired=lambda: self._on_late(question),
        )  # fmt: skip
        question.clock.start()

    def _stop_time(self, question: Question[Any]) -> None:
        if question.clock is not None:
            question.clock.stop()
            question.clock = None  # it refers to the question: both would stay until the next garbage collection

    def _pause(self, question: Question[Any], *, paused: bool) -> None:
        if question.clock is not None:
            question.clock.pause(paused=paused)

    def _on_late(self, question: Question[Any]) -> None:
        if self.is_open:
            question.is_late = True
            self.kill(f"takes longer than its limit of {question.seconds:g} s")

    def _write(self, pieces: list[bytes]) -> None:
        if self._transport is None:
            self._unsent += pieces
        else:
            self._transport.writelines(pieces)

    async def _open(self) -> None:
        try:
            self._transport, _ = await self._loop.create_unix_connection(lambda: _Frames(self), sock=self.connection)
        except OSError:
            self.on_closed()
        else:
            self._write(self._unsent)
            self._unsent = []

    def admit(self, number: int, size: int) -> bool:
        """Whether a frame of this size is read; a large answer stays in the process until there is room for it."""
        if not 0 < size <= self._max_bytes:
            self._refuse("it is too large")
            return False
        question = self.questions.get(number)
        if size <= _SMALL_BYTES or question is None or question.room is None or question.answered.done():
            return True
        question.room.release()  # what the answer of a process that died has held
        if not question.room.try_grow(size):
            self._transport.pause_reading()
            self._pause(question, paused=True)
            waiting = self._loop.create_task(self._await_room(question, question.room, size))
            question.answered.add_done_callback(lambda _: waiting.cancel())
        return True

    async def _await_room(self, question: Question[Any], room: AnswerRoom, size: int) -> None:
        """Read an answer once there is room for it. Kill the worker if that is too late, or nobody waits any more."""
        began = self._loop.time()
        try:
            async with asyncio.timeout(question.room_seconds):
                await room.grow(size)
        except (TimeoutError, asyncio.CancelledError) as error:
            self.kill()
            if not question.answered.done():
                question.answered.set_exception(error)
        else:
            question.waited = self._loop.time() - began
            self._pause(question, paused=False)
            self._transport.resume_reading()

    def on_frame(self, number: int, header: memoryview, body: memoryview) -> None:
        """Take an answer, or what the worker asks about a question."""
        if self.is_broken:
            return
        question = self.questions.get(number)
        try:
            if question is None or (self._is_serial and question is not next(iter(self.questions.values()))):
                raise InvalidAnswer("nothing was asked")
            answer = question.read(header, body)
        except InvalidAnswer as error:
            self._refuse(str(error))
            return
        if answer is None:
            self._pause(question, paused=True)
            return
        del self.questions[number]
        self._stop_time(question)
        question.finish(answer)
        if self._is_serial and self.questions:
            self._start_time(next(iter(self.questions.values())))

    def _watch_memory(self) -> None:
        self._memory_timer = None
        if self.questions and self._memory is not None:
            if self.resident_bytes > self._memory:
                self.kill(f"needs more than {self._memory / 1e6:,.0f} MB; the limit is parse_memory")
            else:
                self._memory_timer = self._loop.call_later(_WATCH_SECONDS, self._watch_memory)


class _Frames(asyncio.BufferedProtocol):
    """Reads the frames of a worker, each into memory of its own: it may be kept for long."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._buffer = bytearray(PREFIX.size)
        self._filled = 0
        self._frame: tuple[int, int] | None = None
        """Number and size of the header; None: its prefix is read."""

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        self._worker.received += nbytes
        if self._filled < len(self._buffer):
            return
        content, self._filled = memoryview(self._buffer), 0
        if self._frame is None:
            number, header_size, body_size = PREFIX.unpack(content)
            if self._worker.admit(number, header_size + body_size):
                self._frame, self._buffer = (number, header_size), bytearray(header_size + body_size)
        else:
            (number, header_size), self._frame, self._buffer = self._frame, None, bytearray(PREFIX.size)
            self._worker.on_frame(number, content[:header_size], content[header_size:])

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._worker.on_closed()
