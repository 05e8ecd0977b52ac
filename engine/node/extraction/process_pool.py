"""The pool of a node's extraction processes: killed at a limit, replaced after a death."""

import asyncio
import logging
import signal
from collections import deque
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import asdict

from engine.node.extraction import wire
from engine.node.extraction.board import SLOTS, ProgressBoard
from engine.node.extraction.clock import DocumentClock
from engine.node.extraction.death import DeathCause, judge_death
from engine.node.extraction.limits import ExtractionLimits
from engine.node.extraction.node_calls import CallReplies
from engine.node.extraction.request import (
    ChildState,
    ExtractionRequest,
    RoomNeeded,
    check_answer,
    encode_defs,
    raise_failure,
)
from engine.processes.forks import Forks
from engine.processes.frames import PREFIX, encode_frame
from engine.processes.launcher import TemplateLink, TemplateLost
from engine.processes.orders import NOT_FORKED, Ended

MAX_CHILDREN = 2
"""Processes without plugin code: one that works, and one for documents behind a costly one."""
QUEUED = 2
"""Documents that a process has at most: it works on one while the next waits."""
QUEUED_SMALL, SMALL_BYTES = 8, 250_000
"""The same for documents without plugin code that have so many bytes together: they cost fewer wake-ups."""
BUSY_SECONDS = 0.25
"""After so long on one document, a second process starts for the others."""


def choose_child(
    children: Sequence[ChildState], request: ExtractionRequest, now: float
) -> ChildState | Literal["start"] | None:
    """The process for a document, or "start" for a new one. None: the document waits.

    A process that runs plugin code serves one version of it alone. `now`: the clock of the loop.
    """
    if request.deaths > 0:  # a document that killed a process before is worked alone
        return "start"
    alive = [child for child in children if child.fork.is_open and not child.alone and child.code == request.code]
    alive.sort(key=lambda child: child.number)
    late = now - BUSY_SECONDS
    prompt = [child for child in alive if not child.requests or child.clock.began_at > late]
    if request.code:
        alive = alive[: request.workers]  # the oldest ones: others were started for tasks that allow more
        prompt = sorted([child for child in prompt if child in alive], key=lambda child: len(child.requests))
    # without plugin code the oldest comes first: its memo of links, heap and caches are warm
    chosen = next((child for child in prompt if _has_place(child, request)), None)
    if chosen is not None:
        return chosen
    return None if prompt else "start"


def _has_place(child: ChildState, request: ExtractionRequest) -> bool:
    queued = child.requests
    if len(queued) < QUEUED or len(queued) >= QUEUED_SMALL or request.code:
        return len(queued) < QUEUED
    return sum([one.body.size for one in queued]) + request.body.size <= SMALL_BYTES


def children_to_retire(children: Sequence[ChildState], request: ExtractionRequest, limit: int) -> list[ChildState]:
    """Idle processes that make room: for another version's plugin code, or for a document that is worked alone.

    `limit`: processes that the document's code may have.
    """
    idle = [child for child in children if child.fork.is_open and not child.requests]
    old = [child for child in idle if request.code and child.code not in ("", request.code)]
    if request.deaths and not has_room(children, request, limit):
        old += [child for child in idle if child.code == request.code][:1]
    return old


def spare_children(children: Sequence[ChildState]) -> list[ChildState]:
    """Processes without plugin code that were started for what waited behind a costly document, once all are idle."""
    plain = [child for child in children if child.fork.is_open and not child.code]
    return [] if any(child.requests for child in plain) else plain[1:]


def has_room(children: Sequence[ChildState], request: ExtractionRequest, limit: int) -> bool:
    """Whether a further process may start for the document's code."""
    return sum(child.code == request.code for child in children) < limit and len(children) < SLOTS


def free_slot(children: Sequence[ChildState]) -> int:
    """The lowest slot of the board that no process has."""
    return min(set(range(SLOTS)) - {child.slot for child in children})


_log = logging.getLogger(__name__)
_RESTART_SECONDS = 0.2
_MAX_FAILED_STARTS = 10


class ExtractionPool:
    """Extraction processes, started when needed. For one event loop, which alone may call `close`."""

    def __init__(self, link: TemplateLink, limits: ExtractionLimits, *, max_children: int = MAX_CHILDREN) -> None:
        self.link = link
        self._forks = Forks(link, "engine.node.extraction.child:main", "extraction")
        self._board = ProgressBoard()
        self.limits = limits
        self._max_children = max_children
        self._children: list[ChildState] = []
        self._queue: deque[ExtractionRequest] = deque()
        self._last_number = 0
        self._failed_starts = 0
        self._start_blocked = False
        self._dispatching = False
        self._wake_up: asyncio.TimerHandle | None = None
        self._replies = CallReplies()

    @property
    def pids(self) -> list[int]:
        """Of the live processes. Callable from any thread."""
        return [child.fork.pid for child in list(self._children) if child.fork.pid is not None]

    async def work(self, request: ExtractionRequest) -> wire.Result:
        """The answer. Raises UnsupportedContent, ExtractionUnavailable, and UnreadablePage with the reason."""
        request.answered = asyncio.get_running_loop().create_future()
        if request.on_call is not None:
            request.on_call.begin()
        self._queue.append(request)
        self._dispatch()
        answer = await request.wait()
        if isinstance(answer, wire.Failure):
            raise_failure(answer, self.limits.memory)
        assert not isinstance(answer, wire.NodeCallRequest)
        return answer

    def close(self) -> None:
        """Kill all processes; what waits is cancelled."""
        if self._wake_up is not None:
            self._wake_up.cancel()
        for child in self._children:
            child.clock.stop()
            child.fork.close()
        self._forks.close()
        for request in (*self._queue, *(request for child in self._children for request in child.requests)):
            request.answered.cancel()
        self._children, self._queue = [], deque()

    def _dispatch(self) -> None:
        """Hand out waiting documents while processes are free."""
        if self._dispatching or not self._queue:
            return
        self._dispatching = True
        full: set[str] = set()
        for request in list(self._queue):
            if request.answered.done() or request.code in full:  # done: its job was cancelled, or no process starts
                continue
            chosen = choose_child(self._children, request, asyncio.get_running_loop().time())
            child = self._start_child(request) if chosen == "start" else chosen
            if child is None:
                full.add(request.code)
            else:
                self._queue.remove(request)
                self._send(child, request)
        self._queue = deque(request for request in self._queue if not request.answered.done())
        self._dispatching = False
        if self._queue and self._wake_up is None:
            self._wake_up = asyncio.get_running_loop().call_later(BUSY_SECONDS, self._dispatch_later)

    def _dispatch_later(self, unblocks_start: bool = False) -> None:
        self._wake_up = None
        self._start_blocked = self._start_blocked and not unblocks_start
        self._dispatch()

    def _start_child(self, request: ExtractionRequest) -> ChildState | None:
        if self._start_blocked:
            return None
        limit = request.workers if request.code else self._max_children
        for child in children_to_retire(self._children, request, limit):
            child.fork.kill()
        if not has_room(self._children, request, limit):
            return None
        self._last_number += 1
        child = ChildState(self._last_number, free_slot(self._children), alone=request.deaths > 0, code=request.code)
        self._board.slot(child.slot).clear()
        try:
            child.fork = self._forks.start(
                {"slot": child.slot, "limits": asdict(self.limits)},
                {"board": self._board.fd},
                lambda ended: self._on_end(child, ended),
            )
        except (TemplateLost, OSError) as error:
            self._on_failed_start(str(error))
            return None
        self._children.append(child)
        child.clock = DocumentClock(
            asyncio.get_running_loop(),
            self.limits.wall_seconds,
            has_begun=lambda: self._board.slot(child.slot).document > 0,
            received=lambda: child.connection.received,
            on_expired=lambda: self._on_expired(child),
        )
        child.connection = child.fork.read_frames(
            max_bytes=self.limits.answer + PREFIX.size,
            on_size=lambda size: self._on_size(child, size),
            on_answer=lambda header, body: self._on_answer(child, header, body),
        )
        return child

    def _on_failed_start(self, reason: str) -> None:
        """Start no process for a while; after many failures in a row, fail the waiting documents."""
        self._failed_starts += 1
        self._start_blocked = True
        asyncio.get_running_loop().call_later(_RESTART_SECONDS * self._failed_starts, self._dispatch_later, True)
        _log.warning("cannot start an extraction process: %s", reason)
        if self._failed_starts > _MAX_FAILED_STARTS:
            self._failed_starts = 0
            failure = wire.Failure(kind="unavailable", reason=f"no extraction process can be started: {reason}")
            while self._queue:
                self._queue.popleft().answer(failure)

    def _send(self, child: ChildState, request: ExtractionRequest) -> None:
        pieces: list[bytes] = []
        if request.definitions is not None and child.learn_defs(request.definitions[0]):
            key, definitions = request.definitions
            pieces += encode_frame({"kind": "defs", "defs": key}, encode_defs(definitions))
        pieces += encode_frame(request.header, request.read_body())
        child.requests.append(request)
        if len(child.requests) == 1:
            child.clock.start(request.step_seconds)
        child.connection.write(pieces)

    def _on_expired(self, child: ChildState) -> None:
        if child.fork.is_open:
            child.timed_out = self._board.slot(child.slot).document > child.answers
            child.fork.kill()

    def _on_size(self, child: ChildState, size: int) -> bool:
        """Whether the answer may be read now; otherwise it stays in the process until there is room."""
        if not child.requests or child.requests[0].admit(size):
            return True

        def resume() -> None:
            child.clock.pause(paused=False)
            child.connection.resume()

        child.clock.pause(paused=True)
        child.requests[0].ask_room(RoomNeeded(size, resume, abandon=child.fork.kill))
        return False

    def _on_answer(self, child: ChildState, header: memoryview, body: memoryview) -> None:
        if child.garbage:
            return
        try:
            if not child.requests:
                raise wire.InvalidAnswer("nothing was asked")
            answer = wire.decode_answer(header, body, self.limits.answer)
            if isinstance(answer, wire.NodeCallRequest):
                self._replies.answer(child, answer)
                return
            child.clock.stop()
            child.timed_out = False  # it was killed, but this document had its answer
            check_answer(child.requests[0], answer)
        except wire.InvalidAnswer as error:
            _log.error("extraction process %s: invalid answer: %s", child.fork.pid, error)
            child.garbage = True
            child.fork.kill()
            return
        request = child.requests.popleft()
        child.answers += 1
        child.alone = False
        self._failed_starts = 0
        if isinstance(answer, wire.Failure) and answer.kind == "memory" and child.answers > 1:
            # memory that earlier documents left may be the cause: a fresh process decides
            child.fork.kill()
            self._work_again(request)
        else:
            request.answer(answer)
        if child.requests:
            child.clock.start(child.requests[0].step_seconds)
        self._dispatch()
        if not self._queue:
            for spare in spare_children(self._children):
                spare.fork.kill()

    def _on_end(self, child: ChildState, ended: Ended) -> None:
        """Decide about the document in progress; requeue those that were not begun."""
        child.clock.stop()
        self._children.remove(child)
        slot = self._board.slot(child.slot)
        by_us = child.fork.is_killed and ended.status == signal.SIGKILL  # for the sake of another document
        begun = slot.document > child.answers and not by_us
        broke_down = ended.status not in (0, signal.SIGKILL, NOT_FORKED)
        if child.requests and (begun or broke_down or child.garbage or child.timed_out):
            request = child.requests.popleft()
            progress = slot.describe(request.definitions[1] if request.definitions else None, request.data_defs)
            cause = judge_death(
                ended.status, ended.memory, self.limits,
                progress=progress, timed_out=child.timed_out, garbage=child.garbage, deaths=request.deaths + 1,
            )  # fmt: skip
            self._apply_cause(request, cause, slot.step)
        self._queue.extendleft(reversed(child.requests))
        if ended.status == NOT_FORKED:
            self._on_failed_start("no memory or processes left")
        elif not (slot.document or child.fork.is_killed):
            self._on_failed_start("it ended before it began a document")
        self._dispatch()

    def _apply_cause(self, request: ExtractionRequest, cause: DeathCause, step: tuple[int, int] | None) -> None:
        if cause.reason is not None and request.code and step is not None:
            unit, index = step
            request.answer(wire.Failure(kind="step", reason=cause.reason, unit=unit, step=index))
        elif cause.reason is not None:
            request.answer(wire.Failure(kind="unreadable", reason=cause.reason))
        else:
            _log.warning("an extraction process %s; its page is worked once more", cause.death)
            self._work_again(request)

    def _work_again(self, request: ExtractionRequest) -> None:
        request.deaths += 1
        if request.on_call is not None:
            request.on_call.restart()
        self._queue.appendleft(request)
