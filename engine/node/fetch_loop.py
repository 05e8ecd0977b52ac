"""The fetch loop: one asyncio thread that works the leased jobs, each in its slot, and hands on what became of them."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

import uvloop

from engine import urls
from engine.model.job import JobState, LeasedJob
from engine.node.pipeline import Pipeline
from engine.store.tables.events import Event
from engine.store.transactions.outcome import JobOutcome

_log = logging.getLogger(__name__)
_TICK_SECONDS = 0.1


@dataclass(slots=True)
class _Slot:
    task: asyncio.Task[None]
    started_at: float
    """Monotonic second."""
    running: bool = False
    sending: bool = False
    released: bool = False
    """To be given back before it begins: a task cancelled before its first step would leave no trace."""


class FetchLoop(threading.Thread):
    """Holds the node's slots. `submit` and the numbers may be used from any thread."""

    def __init__(
        self,
        *,
        build_pipeline: Callable[[], Pipeline],
        close: Callable[[], Coroutine[None, None, None]],
        on_finished: Callable[[JobOutcome], None],
        on_slot_freed: Callable[[], None],
        concurrency: int,
        source: str,
    ) -> None:
        """`make` builds the pipeline on the loop's thread; `freed` is called when a job is done with.

        Of the jobs submitted, `concurrency` are worked at once; those beyond wait, so that a freed slot never idles.
        """
        super().__init__(name="fetch-loop", daemon=True)
        self._build_pipeline = build_pipeline
        self._close = close
        self._on_finished = on_finished
        self._on_slot_freed = on_slot_freed
        self._concurrency = concurrency
        self._source = source
        self._slots: dict[int, _Slot] = {}
        self._submitted = 0  # written by who submits
        self._completed = 0  # written by the loop
        self._releasing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pipeline: Pipeline | None = None
        self._semaphore: asyncio.Semaphore
        self._ready = threading.Event()
        self._stop_event: asyncio.Event | None = None
        self.ticked_at = time.monotonic()
        self.lag = 0.0
        self.current_url = ""

    @property
    def active_count(self) -> int:
        """Jobs in slots, or on their way to one."""
        return self._submitted - self._completed

    def start_and_wait(self) -> None:
        """Start the thread; returns when jobs may be submitted."""
        self.start()
        self._ready.wait()

    def submit(self, jobs: list[LeasedJob]) -> None:
        """Work these jobs."""
        assert self._loop is not None
        self._submitted += len(jobs)
        self._loop.call_soon_threadsafe(self._start_jobs, jobs)

    def release_jobs(self, reason: str | None) -> None:
        """End what runs: jobs unsent, or yet to come, become READY at once; with a reason, sent ones INCOMPLETE."""
        if self._loop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._release_slots, reason)

    def stop(self) -> None:
        """End the loop; what still runs is dropped."""
        if self._loop is not None and self._stop_event is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._stop_event.set)

    def run(self) -> None:
        """The thread."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self._loop, self._stop_event = asyncio.get_running_loop(), asyncio.Event()
        self._pipeline = self._build_pipeline()
        self._semaphore = asyncio.Semaphore(self._concurrency)
        self._ready.set()
        while not self._stop_event.is_set():
            planned = time.monotonic() + _TICK_SECONDS
            try:
                await asyncio.wait_for(self._stop_event.wait(), _TICK_SECONDS)
            except TimeoutError:
                pass
            self.ticked_at = time.monotonic()
            self.lag = max(0.0, self.ticked_at - planned)
        for slot in self._slots.values():
            slot.task.cancel()
        await self._close()

    def _start_jobs(self, jobs: list[LeasedJob]) -> None:
        assert self._loop is not None
        for job in jobs:
            task = self._loop.create_task(self._run_job(job))
            self._slots[job.id] = _Slot(task, time.monotonic(), released=self._releasing)

    async def _run_job(self, job: LeasedJob) -> None:
        assert self._pipeline is not None
        slot = self._slots[job.id]
        slot.running = True

        def started() -> None:
            slot.sending = True
            self.current_url = urls.without_credentials(job.target or job.url)

        try:
            if slot.released:
                raise asyncio.CancelledError
            if job.send_at is not None:  # it sleeps until its time, and must not keep others from working
                done = await self._pipeline.process(job, started)
            else:
                async with self._semaphore:
                    done = await self._pipeline.process(job, started)
        except asyncio.CancelledError as cancelled:
            reason = cancelled.args[0] if cancelled.args else None
            if reason is None and slot.sending:
                raise
            done = self._interrupted_outcome(job, slot, reason)
        except Exception as error:
            _log.exception("job %s %s", job.id, job.url)
            reason = f"fault of the program: {type(error).__name__}: {error}"[:300]
            event = Event(time.time(), "ERROR", self._source, "page", f"FAILED {job.url}: {reason}", job.id)
            done = JobOutcome(
                job=job, state=JobState.FAILED, reason=reason, attempts=1, events=(event,), host_failed=True
            )
        finally:
            del self._slots[job.id]
            self._completed += 1
        self._on_finished(done)
        self._on_slot_freed()

    def _interrupted_outcome(self, job: LeasedJob, slot: _Slot, reason: str | None) -> JobOutcome:
        if not slot.sending:
            return JobOutcome(job=job, state=JobState.READY, hops=job.hops, target=job.target)
        why = f"{reason}; under way for {time.monotonic() - slot.started_at:.1f} s"
        event = Event(time.time(), "WARNING", self._source, "page", f"INCOMPLETE {job.url}: {why}", job.id)
        return JobOutcome(
            job=job, state=JobState.INCOMPLETE, reason=why, hops=job.hops, target=job.target, events=(event,)
        )

    def _release_slots(self, reason: str | None) -> None:
        self._releasing = True
        for slot in list(self._slots.values()):
            if not slot.running:
                slot.released = True
            elif not slot.sending:
                slot.task.cancel()
            elif reason is not None:
                slot.task.cancel(reason)
