"""The pool of a node's extraction processes: killed at a limit, replaced after a death."""

import asyncio
import logging
import signal
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import asdict

from engine.node.extraction import wire
from engine.node.extraction.board import SLOTS, ProgressBoard, ProgressSlot
from engine.node.extraction.death import judge_death
from engine.node.extraction.limits import ExtractionLimits
from engine.node.extraction.page_extraction import ExtractionUnavailable, UnreadablePage
from engine.node.extraction.request import ExtractionRequest, StepDied, check_answer, encode_defs, raise_failure
from engine.processes.frames import encode_frame
from engine.processes.launcher import Launcher, TemplateLink, TemplateLost
from engine.processes.orders import NOT_FORKED, ProcessKind
from engine.processes.pool import Claim, Pool
from engine.processes.worker import Question, Worker, WorkerEnded

MAX_CHILDREN = 2
"""Processes without plugin code: one that works, and one for documents behind a costly one."""
QUEUED = 2
"""Documents that a process has at most: it works on one while the next waits."""
QUEUED_SMALL, SMALL_BYTES = 8, 250_000
"""The same for documents without plugin code that have so many bytes together: they cost fewer wake-ups."""
BUSY_SECONDS = 0.25
"""After so long on one document, a second process starts for the others."""
_KIND = ProcessKind("engine.node.extraction.child:main", "extraction")
_RESTART_SECONDS = 0.2
_MAX_FAILED_STARTS = 10
_log = logging.getLogger(__name__)


class DocumentClaim(Claim):
    """The claim of a document to a place in a process."""

    def __init__(self, request: ExtractionRequest, max_children: int) -> None:
        super().__init__(request.code, size=request.workers if request.code else max_children)
        self.request = request


class KnownDefs:
    """The keys of the defs that a process has, the oldest first."""

    def __init__(self) -> None:
        self._keys: list[int] = []

    def learn(self, key: int) -> bool:
        """Whether the process lacks these defs and must get them. It forgets the oldest beyond its limit."""
        if key in self._keys:
            return False
        self._keys = [*self._keys, key][-wire.MAX_KNOWN_DEFS :]
        return True


class ExtractionProcess(Worker):
    """One extraction process. Its `key`: the def version whose plugin code it runs; empty: none."""

    def __init__(self, launcher: Launcher, board: ProgressBoard, slot: int, claim: DocumentClaim,
                 limits: ExtractionLimits, number: int) -> None:  # fmt: skip
        """Start it. Raises TemplateLost, OSError."""
        self.number = number
        self.slot = slot
        self.progress: ProgressSlot = board.slot(slot)
        """What it does; after its end, what it did last."""
        self.progress.clear()
        self.alone = claim.request.deaths > 0
        """Whether it works on a document that killed a process before, and gets no other meanwhile."""
        self.known_defs = KnownDefs()
        self.answers = 0
        arguments = {"slot": slot, "limits": asdict(limits)}
        super().__init__(
            launcher, _KIND, arguments, {"board": board.fd}, max_bytes=limits.answer,
            has_begun=lambda: self.progress.document > 0,
        )  # fmt: skip

    @property
    def began_at(self) -> float:
        """When it began its document, by the clock of the loop; far in the future if it has none."""
        question = next(iter(self.questions.values()), None)
        return question.clock.began_at if question is not None and question.clock is not None else float("inf")

    def _on_finished(self) -> None:
        self.progress = self.progress.copy()  # the next process has the slot
        super()._on_finished()


class _Attempt(Question[wire.Answer]):
    """A document in one process. Its place is free as soon as it has its answer, or the process has ended."""

    def __init__(self, pool: "ExtractionPool", claim: DocumentClaim, process: ExtractionProcess) -> None:
        self._pool = pool
        self._claim = claim
        self._process = process
        self._request = claim.request
        self.seconds = pool.limits.wall_seconds + self._request.step_seconds
        self.room = self._request.share

    def encode(self, number: int) -> list[bytes]:
        return encode_frame(self._request.header, self._request.read_body(), number)

    def read(self, _header: memoryview, body: memoryview) -> wire.Answer | None:
        answer = wire.decode_answer(body, self._pool.limits.answer)
        if isinstance(answer, wire.NodeCallRequest):
            replying = asyncio.get_running_loop().create_task(self._reply(answer))
            self._pool.replying.add(replying)
            replying.add_done_callback(self._pool.replying.discard)
            return None
        check_answer(self._request, answer)
        self._process.answers += 1
        self._process.alone = False
        return answer

    def finish(self, answer: wire.Answer | WorkerEnded) -> None:
        super().finish(answer)
        self._pool.give_back(self._process, self._claim)

    async def _reply(self, call: wire.NodeCallRequest) -> None:
        """Have the node answer plugin code; until then the time of the document does not count."""
        value, problem = None, ""
        try:
            if self._request.on_call is not None:
                value = await self._request.on_call.answer(call)
        except Exception as error:
            _log.warning("%s of plugin code failed: %s", call.call, error)
            problem = f"{call.call} failed: {error}"[:300]
        self._process.reply(self, {"kind": "reply", "value": value, "problem": problem})


def choose_child(
    children: Sequence[ExtractionProcess], request: ExtractionRequest, now: float
) -> ExtractionProcess | Literal["start"] | None:
    """The process for a document, or "start" for a new one. None: the document waits.

    A process that runs plugin code serves one version of it alone. `now`: the clock of the loop.
    """
    if request.deaths > 0:  # a document that killed a process before is worked alone
        return "start"
    alive = [child for child in children if child.is_open and not child.alone and child.key == request.code]
    alive.sort(key=lambda child: child.number)
    late = now - BUSY_SECONDS
    prompt = [child for child in alive if not child.claims or child.began_at > late]
    if request.code:
        alive = alive[: request.workers]  # the oldest ones: others were started for tasks that allow more
        prompt = sorted([child for child in prompt if child in alive], key=lambda child: len(child.claims))
    # without plugin code the oldest comes first: its memo of links, heap and caches are warm
    chosen = next((child for child in prompt if _has_place(child, request)), None)
    if chosen is not None:
        return chosen
    return None if prompt else "start"


def _has_place(child: ExtractionProcess, request: ExtractionRequest) -> bool:
    queued = child.claims
    if len(queued) < QUEUED or len(queued) >= QUEUED_SMALL or request.code:
        return len(queued) < QUEUED
    return bool(sum([claim.request.body.size for claim in queued]) + request.body.size <= SMALL_BYTES)


def children_to_retire(
    children: Sequence[ExtractionProcess], request: ExtractionRequest, limit: int
) -> list[ExtractionProcess]:
    """Idle processes that make room: for another version's plugin code, or for a document that is worked alone.

    `limit`: processes that the document's code may have.
    """
    idle = [child for child in children if child.is_open and not child.claims]
    old = [child for child in idle if request.code and child.key not in ("", request.code)]
    if request.deaths and not has_room(children, request, limit):
        old += [child for child in idle if child.key == request.code][:1]
    return old


def spare_children(children: Sequence[ExtractionProcess]) -> list[ExtractionProcess]:
    """Processes without plugin code that were started for what waited behind a costly document, once all are idle."""
    plain = sorted([child for child in children if child.is_open and not child.key], key=lambda child: child.number)
    return [] if any(child.claims for child in plain) else plain[1:]


def has_room(children: Sequence[ExtractionProcess], request: ExtractionRequest, limit: int) -> bool:
    """Whether a further process may start for the document's code."""
    return sum(child.key == request.code for child in children) < limit and len(children) < SLOTS


class ExtractionPool(Pool[ExtractionProcess, DocumentClaim]):
    """Extraction processes, started when needed. For one event loop, which alone may call `close`."""

    def __init__(self, link: TemplateLink, limits: ExtractionLimits, *, max_children: int = MAX_CHILDREN) -> None:
        super().__init__(self._open)
        self.link = link
        self.limits = limits
        self.replying = set[asyncio.Task[None]]()
        """Answers to plugin code that are being found."""
        self.started = 0
        """Processes so far."""
        self._launcher = Launcher(link, "extraction")
        self._board = ProgressBoard()
        self._max_children = max_children
        self._failed_starts = 0
        self._start_blocked = False
        self._wake_up: asyncio.TimerHandle | None = None

    async def work(self, request: ExtractionRequest) -> wire.Result:
        """The answer. Raises UnsupportedContent, ExtractionUnavailable, and UnreadablePage with the reason."""
        if request.on_call is not None:
            request.on_call.begin()
        claim = DocumentClaim(request, self._max_children)
        while True:
            try:
                process = await self.take(claim)
            except (TemplateLost, OSError) as error:
                self._on_failed_start(str(error))
                continue
            attempt = _Attempt(self, claim, process)
            try:
                answer = await self._ask(process, attempt, request)
            except WorkerEnded as end:
                self._judge(request, process, end)
                continue
            self._failed_starts = 0
            if isinstance(answer, wire.Failure) and answer.kind == "memory" and process.answers > 1:
                # memory that earlier documents left may be the cause: a fresh process decides
                process.kill()
                _work_again(request)
                continue
            if isinstance(answer, wire.Failure):
                raise_failure(answer, self.limits.memory)
            assert not isinstance(answer, wire.NodeCallRequest)
            return answer

    def choose(self, claim: DocumentClaim) -> ExtractionProcess | Literal["start"] | None:
        """A process with a place for the document, "start" for a new one. None: it waits."""
        request = claim.request
        chosen = choose_child(self.processes, request, asyncio.get_running_loop().time())
        if chosen != "start":
            return chosen
        if self._start_blocked:
            return None
        for child in children_to_retire(self.processes, request, claim.size):
            child.kill()
        return "start" if has_room(self.processes, request, claim.size) else None

    def dispatch(self) -> None:
        """Hand out waiting documents while processes are free; look again later."""
        super().dispatch()
        if self.is_waiting:
            if self._wake_up is None:
                self._wake_up = asyncio.get_running_loop().call_later(BUSY_SECONDS, self._dispatch_later)
        else:
            for spare in spare_children(self.processes):
                spare.kill()

    def close(self) -> None:
        """Kill all processes; what waits is cancelled."""
        if self._wake_up is not None:
            self._wake_up.cancel()
        super().close()
        self._launcher.close()

    async def _ask(self, process: ExtractionProcess, attempt: _Attempt, request: ExtractionRequest) -> wire.Answer:
        before: list[bytes] = []
        if request.definitions is not None and process.known_defs.learn(request.definitions[0]):
            key, definitions = request.definitions
            before = encode_frame({"kind": "defs", "defs": key}, encode_defs(definitions))
        process.send(attempt, before)
        return await attempt.wait()

    def _open(self, claim: DocumentClaim) -> ExtractionProcess:
        self.started += 1
        slot = min(set(range(SLOTS)) - {child.slot for child in self.processes})
        return ExtractionProcess(self._launcher, self._board, slot, claim, self.limits, self.started)

    def _dispatch_later(self, unblocks_start: bool = False) -> None:
        self._wake_up = None
        self._start_blocked = self._start_blocked and not unblocks_start
        self.dispatch()

    def _on_failed_start(self, reason: str) -> None:
        """Start no process for a while; after many failures in a row, fail the waiting documents."""
        self._failed_starts += 1
        self._start_blocked = True
        loop = asyncio.get_running_loop()
        loop.call_later(_RESTART_SECONDS * self._failed_starts, self._dispatch_later, True)
        _log.warning("cannot start an extraction process: %s", reason)
        if self._failed_starts > _MAX_FAILED_STARTS:
            self._failed_starts = 0
            text = f"no extraction process can be started: {reason}"
            loop.call_soon(self.fail_waiting, lambda: ExtractionUnavailable(text))  # the lost document waits by then

    def _on_end(self, process: ExtractionProcess) -> None:
        assert process.ended is not None
        if process.ended.status == NOT_FORKED:
            self._on_failed_start("no memory or processes left")
        elif not (process.progress.document or process.is_killed):
            self._on_failed_start("it ended before it began a document")
        super()._on_end(process)

    def _judge(self, request: ExtractionRequest, process: ExtractionProcess, end: WorkerEnded) -> None:
        """Decide about a document whose process ended: it is worked again, unless it is to blame.

        Raises StepDied and UnreadablePage.
        """
        status = end.ended.status
        was_begun = process.progress.document > process.answers
        timed_out = end.is_late and was_begun
        by_us = process.is_killed and status == signal.SIGKILL  # for the sake of another document
        broke_down = status not in (0, signal.SIGKILL, NOT_FORKED)
        if not end.is_first or not ((was_begun and not by_us) or broke_down or process.is_broken or timed_out):
            return
        definitions = request.definitions[1] if request.definitions else None
        cause = judge_death(
            status, end.ended.memory, self.limits, progress=process.progress.describe(definitions, request.data_defs),
            timed_out=timed_out, garbage=process.is_broken, deaths=request.deaths + 1,
        )  # fmt: skip
        step = process.progress.step
        if cause.reason is None:
            _log.warning("an extraction process %s; its page is worked once more", cause.death)
            _work_again(request)
        elif request.code and step is not None:
            raise StepDied(*step, cause.reason)
        else:
            raise UnreadablePage(cause.reason)


def _work_again(request: ExtractionRequest) -> None:
    request.deaths += 1
    if request.on_call is not None:
        request.on_call.restart()
