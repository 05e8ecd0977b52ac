"""The pool of a node's extraction processes: killed at a limit, replaced after a death."""

import asyncio
import logging
import signal
from collections import deque
from operator import attrgetter
from typing import Literal

from msgspec.structs import asdict

from crawl_engine.node.extraction import wire
from crawl_engine.node.extraction.board import SLOTS, ProgressBoard, ProgressSlot
from crawl_engine.node.extraction.death import judge_death
from crawl_engine.node.extraction.limits import ExtractionLimits
from crawl_engine.node.extraction.page_extraction import ExtractionUnavailable, UnreadablePage
from crawl_engine.node.extraction.request import ExtractionRequest, StepDied, check_answer, encode_defs, raise_failure
from crawl_engine.processes.frames import encode_frame
from crawl_engine.processes.launcher import Launcher, TemplateLink, TemplateLost
from crawl_engine.processes.orders import NOT_FORKED, ProcessKind
from crawl_engine.processes.pool import Pool
from crawl_engine.processes.worker import Question, Worker, WorkerEnded

MAX_CHILDREN = 2
"""Processes without plugin code: one that works, and one for documents behind a costly one."""
QUEUED = 2
"""Documents that a process has at most: it works on one while the next waits."""
QUEUED_SMALL, SMALL_BYTES = 8, 250_000
"""The same for documents without plugin code that have so many bytes together: they cost fewer wake-ups."""
BUSY_SECONDS = 0.25
"""After so long on one document, a second process starts for the others."""
_KIND = ProcessKind("crawl_engine.node.extraction.child:main", "extraction")
_RESTART_SECONDS = 0.2
_MAX_FAILED_STARTS = 10
_log = logging.getLogger(__name__)


class ExtractionProcess(Worker):
    """One extraction process. Its `key`: the def version whose plugin code it runs; empty: none."""

    def __init__(
        self, launcher: Launcher, board: ProgressBoard, slot: int, limits: ExtractionLimits, number: int
    ) -> None:  # fmt: skip
        """Start it. Raises TemplateLost, OSError."""
        self.number = number
        self.slot = slot
        self.progress: ProgressSlot = board.slot(slot)
        """What it does; after its end, what it did last."""
        self.progress.clear()
        self.known_defs = deque[int](maxlen=wire.MAX_KNOWN_DEFS)
        """Keys of the defs that it has; it forgets the oldest one first, too."""
        self.answers = 0
        super().__init__(
            launcher, _KIND, {"slot": slot, "limits": asdict(limits)}, {"board": board.fd}, max_bytes=limits.answer,
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

    def __init__(self, pool: "ExtractionPool", request: ExtractionRequest, process: ExtractionProcess) -> None:
        self._pool = pool
        self._process = process
        self._request = request
        self.seconds = pool.limits.wall_seconds + request.step_seconds
        self.room = request.share

    def encode(self, number: int) -> list[bytes]:
        """The frame of the document, behind one of the defs if the process lacks them."""
        frames: list[bytes] = []
        if self._request.definitions is not None:
            key, definitions = self._request.definitions
            if key not in self._process.known_defs:
                self._process.known_defs.append(key)
                frames = encode_frame({"kind": "defs", "defs": key}, encode_defs(definitions))
        return [*frames, *encode_frame(self._request.header, self._request.read_body(), number)]

    def read(self, _header: memoryview, body: memoryview) -> wire.Answer | None:
        answer = wire.decode_answer(body, self._pool.limits.answer)
        if isinstance(answer, wire.NodeCallRequest):
            replying = asyncio.get_running_loop().create_task(self._answer_call(answer))
            self._pool.replying.add(replying)
            replying.add_done_callback(self._pool.replying.discard)
            return None
        check_answer(self._request, answer)
        self._process.answers += 1
        return answer

    def finish(self, answer: wire.Answer | WorkerEnded) -> None:
        super().finish(answer)
        self._pool.give_back(self._process, self._request)

    async def _answer_call(self, call: wire.NodeCallRequest) -> None:
        """Have the node answer plugin code; until then the time of the document does not count."""
        value, problem = None, ""
        try:
            if self._request.on_call is not None:
                value = await self._request.on_call.answer(call)
        except Exception as error:
            _log.warning("%s of plugin code failed: %s", call.call, error)
            problem = f"{call.call} failed: {error}"[:300]
        self._process.reply(self, {"kind": "reply", "value": value, "problem": problem})


class ExtractionPool(Pool[ExtractionProcess, ExtractionRequest]):
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
        while True:
            try:
                process = await self.take(request)
            except (TemplateLost, OSError) as error:
                self._on_failed_start(str(error))
                continue
            try:
                answer = await process.ask(_Attempt(self, request, process))
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

    def choose(self, need: ExtractionRequest) -> ExtractionProcess | Literal["start"] | None:
        """A process with a place for the document, "start" for a new one. None: it waits.

        A process that runs plugin code serves one version of it alone. A document that killed a process before gets
        one of its own, and no other document beside it.
        """
        serving = sorted([one for one in self.processes if one.key == need.key], key=attrgetter("number"))
        if not need.deaths:
            able = [one for one in serving if one.is_open and not any(other.deaths for other in one.serves)]
            if need.key:
                able = able[: need.size]  # the oldest ones: others were started for tasks that allow more
            late = asyncio.get_running_loop().time() - BUSY_SECONDS
            prompt = [one for one in able if not one.serves or one.began_at > late]
            if need.key:
                prompt.sort(key=lambda one: len(one.serves))
            # without plugin code the oldest comes first: its memo of links, heap and caches are warm
            if prompt:
                return next((one for one in prompt if _has_place(one, need)), None)
        if self._start_blocked:
            return None
        is_full = len(serving) >= (need.size if need.key else self._max_children) or len(self.processes) >= SLOTS
        idle = [one for one in self.processes if one.is_open and not one.serves]
        retired = [one for one in idle if need.key and one.key not in ("", need.key)]
        if need.deaths and is_full:
            retired += [one for one in idle if one.key == need.key][:1]
        for process in retired:
            process.kill()
        return None if is_full else "start"

    def dispatch(self) -> None:
        """Hand out waiting documents while processes are free; look again later.

        Processes that were started for what waited behind a costly document end once all are idle.
        """
        super().dispatch()
        if not self.is_waiting:
            plain = sorted([one for one in self.processes if one.is_open and not one.key], key=attrgetter("number"))
            if not any(one.serves for one in plain):
                for spare in plain[1:]:
                    spare.kill()
        elif self._wake_up is None:
            self._wake_up = asyncio.get_running_loop().call_later(BUSY_SECONDS, self._dispatch_later)

    def close(self) -> None:
        """Kill all processes; what waits is cancelled."""
        if self._wake_up is not None:
            self._wake_up.cancel()
        super().close()
        self._launcher.close()

    def _open(self, _: ExtractionRequest) -> ExtractionProcess:
        self.started += 1
        slot = min(set(range(SLOTS)) - {child.slot for child in self.processes})
        return ExtractionProcess(self._launcher, self._board, slot, self.limits, self.started)

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
        elif request.key and step is not None:
            raise StepDied(*step, cause.reason)
        else:
            raise UnreadablePage(cause.reason)


def _work_again(request: ExtractionRequest) -> None:
    request.deaths += 1
    if request.on_call is not None:
        request.on_call.restart()


def _has_place(process: ExtractionProcess, request: ExtractionRequest) -> bool:
    queued = process.serves
    if len(queued) < QUEUED or len(queued) >= QUEUED_SMALL or request.key:
        return len(queued) < QUEUED
    return bool(sum([need.body.size for need in queued]) + request.body.size <= SMALL_BYTES)
