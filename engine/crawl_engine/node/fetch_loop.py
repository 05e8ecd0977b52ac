"""The asyncio thread that runs leased jobs, each in a slot, and passes on their outcomes."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Protocol

import uvloop
from msgspec import Struct
from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.errors import CrawlError
from crawl_engine.model.job import JobKind, JobState, LeasedJob
from crawl_engine.node.capacity import ActiveJobs
from crawl_engine.node.node_context import NodeContext
from crawl_engine.store.db.retry_busy import DatabaseBusy
from crawl_engine.store.tables.host.hosts import HostFailure
from crawl_engine.store.tables.outcome import AttemptStats, JobOutcome
from crawl_engine.store.tables.run.events import Event

_log = logging.getLogger(__name__)
_TICK_SECONDS = 0.1
_SHOWN_SECONDS = 1.0
"""How long a node between two requests still names the last one."""


class JobRunner(Protocol):
    """Runs one job: the pipeline, as the fetch loop sees it."""

    def prepare(self, jobs: Sequence[LeasedJob]) -> None:
        """Read from the store what these jobs need, all at once; they run soon."""
        ...

    def waiting_hosts(self) -> dict[int, float]:
        """By host: when the oldest request that waits for its response was sent, in boot-time seconds."""
        ...

    def forget(self, job: LeasedJob) -> None:
        """Free the state of a job, however it ended."""
        ...

    async def process(self, job: LeasedJob, started: Callable[[], None]) -> JobOutcome:
        """The outcome of the job. `started` is called when its request is about to be sent."""
        ...

    async def aclose(self) -> None: ...


class _Slot(Struct):
    job: LeasedJob
    task: asyncio.Task[None]
    started_at: float
    """Monotonic second."""
    sent_at: float | None = None
    """None: its request is not sent yet."""
    url: str = ""
    limit: float = 0.0
    """Seconds that the request may take; 0: no limit."""


class FetchLoop(threading.Thread):
    """Holds the node's slots. `submit` and the numbers may be used from any thread."""

    def __init__(
        self,
        node: NodeContext,
        *,
        build_pipeline: Callable[[], JobRunner],
        active_jobs: ActiveJobs,
        on_finished: Callable[[JobOutcome], None],
        on_slot_freed: Callable[[], None],
    ) -> None:
        """`build_pipeline` is called on the loop's thread; `on_slot_freed` when a job has left its slot.

        Up to `concurrency` jobs (setting) run at once; further ones wait, so that a freed slot never idles.
        """
        super().__init__(name="fetch-loop", daemon=True)
        self._node = node
        self._build_pipeline = build_pipeline
        self._active_jobs = active_jobs
        self._on_finished = on_finished
        self._on_slot_freed = on_slot_freed
        self._slots: dict[tuple[int, int], _Slot] = {}
        self._waiting: deque[LeasedJob] = deque()
        """Jobs that wait for a slot."""
        self._reserved: deque[LeasedJob] = deque()
        """Jobs with a reserved moment for their request: they sleep until then, and take no slot."""
        self._workers: set[asyncio.Task[None]] = set()
        self._releasing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pipeline: JobRunner | None = None
        self._ready = threading.Event()
        self._failure: CrawlError | None = None
        """Why it could not start."""
        self._stop_event: asyncio.Event | None = None
        self.ticked_at = time.monotonic()
        self.lag = 0.0
        self._oldest: _Slot | None = None
        self.waiting_hosts: dict[int, float] = {}
        """As the pipeline said it last."""

    @property
    def active_count(self) -> int:
        return self._active_jobs.count

    @property
    def oldest_request(self) -> tuple[str, float, float]:
        """URL of the request that was sent first of those in flight, its age, and the seconds it may take."""
        slot = self._oldest
        if slot is None or slot.sent_at is None:
            return "", 0.0, 0.0
        return slot.url, time.monotonic() - slot.sent_at, slot.limit

    def start_and_wait(self) -> None:
        """Start the thread; returns when jobs may be submitted. Raises CrawlError where it ends before."""
        self.start()
        while not self._ready.wait(_TICK_SECONDS):
            if not self.is_alive():
                remedy = "The log has the reason; `ulimit -n` may be too low."
                raise self._failure or CrawlError("the fetch loop cannot start", remedy)

    def submit(self, jobs: list[LeasedJob]) -> None:
        assert self._loop is not None
        self._active_jobs.submitted += len(jobs)
        self._loop.call_soon_threadsafe(self._start_jobs, jobs)

    def release_jobs(self, reason: str | None) -> None:
        """End the running jobs. Unsent and later jobs become READY at once; sent ones INCOMPLETE, with a `reason`."""
        if self._loop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._release_slots, reason)

    def give_back(self, hosts: Container[int]) -> None:
        """Have the unsent jobs of these hosts become READY: another machine asks the hosts from now on."""
        if self._loop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._give_back_unsent, hosts)

    def stop(self) -> None:
        """End the loop and drop the running jobs."""
        if self._loop is not None and self._stop_event is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._stop_event.set)

    def run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self._loop, self._stop_event = asyncio.get_running_loop(), asyncio.Event()
        try:
            self._pipeline = self._build_pipeline()
        except CrawlError as error:
            self._failure = error
            return
        self._ready.set()
        while not self._stop_event.is_set():
            planned = time.monotonic() + _TICK_SECONDS
            try:
                await asyncio.wait_for(self._stop_event.wait(), _TICK_SECONDS)
            except TimeoutError:
                pass
            self.ticked_at = time.monotonic()
            self.lag = max(0.0, self.ticked_at - planned)
            self._find_oldest()
            self.waiting_hosts = self._pipeline.waiting_hosts()
        self._waiting.clear()
        self._reserved.clear()
        for slot in self._slots.values():
            slot.task.cancel()
        await self._pipeline.aclose()

    def _find_oldest(self) -> None:
        sent = [slot for slot in self._slots.values() if slot.sent_at is not None]
        oldest = min(sent, key=lambda slot: slot.sent_at or 0.0, default=None)
        if oldest is not None or self._oldest is None or self.ticked_at - (self._oldest.sent_at or 0) > _SHOWN_SECONDS:
            self._oldest = oldest

    def _start_jobs(self, jobs: list[LeasedJob]) -> None:
        assert self._loop is not None and self._pipeline is not None
        for job in jobs:
            if job.terms.send_at is None:
                self._waiting.append(job)
            else:
                self._reserved.append(job)
                self._loop.create_task(self._work(self._reserved))
        if self._releasing:
            self._give_back_waiting()
            return
        for _ in range(min(len(self._waiting), self._node.settings.concurrency - len(self._workers))):
            self._workers.add(self._loop.create_task(self._work(self._waiting)))
        self._pipeline.prepare(jobs)  # before the first of them runs; they run even if it fails

    async def _work(self, jobs: deque[LeasedJob]) -> None:
        """Run jobs until none waits: one at a time, as a job must not hold a place at its host while it waits here."""
        task = asyncio.current_task()
        assert task is not None
        try:
            while jobs:
                await self._run_job(task, jobs.popleft())
        finally:  # not by a callback of the task: jobs that come before that would find no worker
            self._workers.discard(task)

    async def _run_job(self, task: "asyncio.Task[None]", job: LeasedJob) -> None:
        assert self._pipeline is not None
        slot = self._slots[job.lease_key] = _Slot(job, task, time.monotonic())
        outcome = None

        def started() -> None:
            slot.sent_at, slot.url = time.monotonic(), urls.without_credentials(job.target or job.url)
            slot.limit = 0.0 if job.kind is JobKind.FILE else self._node.settings.deadline

        try:
            outcome = await self._pipeline.process(job, started)
        except asyncio.CancelledError as cancelled:
            reason = cancelled.args[0] if cancelled.args else None
            if reason is None and slot.sent_at is not None:
                raise
            task.uncancel()  # it runs other jobs after this one
            outcome = self._interrupted_outcome(job, slot, reason)
        except DatabaseBusy as busy:  # its commit waits for the database, and then the job is worked again
            _log.warning("job %s is worked again: %s", job.id, busy.message)
            outcome = replace(_give_back(job), stats=AttemptStats(requests=int(slot.sent_at is not None)))
        except Exception as error:
            _log.exception("job %s %s", job.id, job.url)
            reason = f"internal error: {type(error).__name__}: {error}"[:300]
            event = Event(time.time(), "ERROR", self._node.name, "page", f"FAILED: {reason}  {job.url}", job.id)
            outcome = JobOutcome(
                job=job, state=JobState.FAILED, reason=reason, attempts=1, effects=(event, HostFailure()),
                stats=AttemptStats(requests=int(slot.sent_at is not None)),
            )  # fmt: skip
        finally:
            del self._slots[job.lease_key]
            self._end(job, outcome)

    def _end(self, job: LeasedJob, outcome: JobOutcome | None) -> None:
        """Pass on the outcome of a job; None: it was dropped."""
        assert self._pipeline is not None
        self._pipeline.forget(job)
        self._active_jobs.completed += 1
        if outcome is not None:
            self._on_finished(outcome)
            self._on_slot_freed()

    def _interrupted_outcome(self, job: LeasedJob, slot: _Slot, reason: str | None) -> JobOutcome:
        if slot.sent_at is None:
            return _give_back(job)
        detail = f"{reason}; in progress for {time.monotonic() - slot.started_at:.1f} s"
        event = Event(time.time(), "WARNING", self._node.name, "page", f"INCOMPLETE {job.url}: {detail}", job.id)
        return JobOutcome(
            job=job, state=JobState.INCOMPLETE, reason=detail, hops=job.hops, target=job.target, effects=(event,),
            stats=AttemptStats(requests=1),
        )  # fmt: skip

    def _release_slots(self, reason: str | None) -> None:
        self._releasing = True
        self._give_back_waiting()
        for slot in list(self._slots.values()):
            if slot.sent_at is None:
                slot.task.cancel()
            elif reason is not None:
                slot.task.cancel(reason)

    def _give_back_waiting(self, hosts: Container[int] | None = None) -> None:
        """Return the jobs that wait, of all hosts or of these; their workers find none left."""
        for waiting in (self._waiting, self._reserved):
            jobs = list(waiting)
            waiting.clear()
            for job in jobs:
                if hosts is None or _asks(job, hosts):
                    self._end(job, _give_back(job))
                else:
                    waiting.append(job)

    def _give_back_unsent(self, hosts: Container[int]) -> None:
        self._give_back_waiting(hosts)
        for slot in list(self._slots.values()):
            if slot.sent_at is None and slot.job.stored is None and _asks(slot.job, hosts):
                slot.task.cancel()


def _asks(job: LeasedJob, hosts: Container[int]) -> bool:
    return job.host in hosts and job.kind is not JobKind.EXTRACT


def _give_back(job: LeasedJob) -> JobOutcome:
    return JobOutcome(job=job, state=JobState.READY, hops=job.hops, target=job.target)
