"""Carries out the limits of a data dir for a supervisor: between runs, and when `max_data` is reached.

All of it happens in small steps, so that a tick never waits long. A line announces each run before it goes.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from crawl_engine.errors import CrawlError, megabytes, plural
from crawl_engine.model.run import Limits
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.tables.job import sequences
from crawl_engine.store.tables.run import deleted_runs, events, runs
from crawl_engine.supervise.run_context import RunContext

if TYPE_CHECKING:
    from crawl_engine.supervise.retention.choice import RunSize
    from crawl_engine.supervise.retention.data_limit import DataLimit

_STEP_SECONDS = 0.05
"""Of one tick."""
_START_SECONDS, _END_SHARE = 10.0, 0.1
"""What a start may take, and an end at least; and the share of the run's time that its end may take."""
_EVENTS = 2_000
"""Of one transaction."""


class Retention(Struct):
    """The limits of one data dir. Call `step` until it returns True, or `stop` was called."""

    run: RunContext
    limit: "DataLimit | None"
    """Watches `max_data`, if it is set."""
    _work: Iterator[object] | None = None
    _deadline: float = 0.0
    _failure: str = ""

    def begin_start(self, *, is_new: bool) -> None:
        """Before the first page: finish what was cut short; before a new run, delete what is over the limits."""
        if is_new and self._is_limited:
            self._begin(self._tidy_start(), _START_SECONDS)
        elif deleted_runs.list_open(self.run.db):
            self._begin(self._finish_left(), _START_SECONDS)

    def begin_end(self, seconds: float) -> None:
        """After a run that is DONE and took so many seconds."""
        if self._is_limited or deleted_runs.list_open(self.run.db):
            self._begin(self._tidy(), max(_START_SECONDS, _END_SHARE * seconds))

    def step(self) -> bool:
        """Work for a moment; returns whether nothing is left to do, or its time is over. A failure is logged."""
        if self._work is None:
            return True
        until = time.monotonic() + _STEP_SECONDS
        try:
            while time.monotonic() < until:
                next(self._work)
                if self._is_over():
                    self.stop()
                    return True
        except StopIteration:
            self.stop()
        except CrawlError as error:
            if error.message != self._failure:  # `make_room` tries again each second
                self._failure = error.message
                with contextlib.suppress(CrawlError):
                    self._tell("WARNING", f"old runs and pages are not deleted now: {error.message}")
            self.stop()
        return self._work is None

    def stop(self) -> None:
        """Leave the rest for a later call."""
        self._work = None

    def make_room(self) -> None:
        """While the data dir is over `max_data` and no job is leased: delete the oldest run that may go, in steps."""
        if self.limit is None:
            return
        if self._work is None:
            if not self.limit.alarm or not self.limit.is_measured or self.limit.dead_end:
                return
            is_held = "disk" in (runs.get(self.run.db, self.run.seq).paused or "")  # until then nodes may lease jobs
            if not is_held or sequences.count(self.run.db, self.run.seq, "taken", kind=None):
                return
            self.limit.is_deleting = True
            self._begin(self._delete_oldest(), float("inf"))
        if self.step():
            self.limit.end_deletion()

    @property
    def _is_limited(self) -> bool:
        settings = self.run.settings
        limits = (settings.keep_runs, settings.keep_pages, settings.keep_events, settings.max_data)
        return any(limit is not None for limit in limits)

    def _begin(self, work: Iterator[object], seconds: float) -> None:
        self._work, self._deadline = work, time.monotonic() + seconds

    def _is_over(self) -> bool:
        return time.monotonic() > self._deadline

    def _finish_left(self) -> Iterator[object]:
        from crawl_engine.supervise.retention.deletion import delete_left

        return delete_left(self.run.db, self.run.folder, with_documents=True, with_orphans=True, stop=self._is_over)

    def _tidy_start(self) -> Iterator[object]:
        """As `_tidy`, but the new run counts as one of those that `keep_runs` keeps only once it is DONE."""
        yield from self._tidy(new_runs=1)
        keep = self.run.settings.keep_runs
        chosen = self._choose(Limits(keep=keep), last_done=self.run.seq) if keep is not None else []
        if chosen:
            self._tell("INFO", f"{_describe(chosen)} to be deleted when this run is DONE: keep_runs is {keep:,}")

    def _tidy(self, new_runs: int = 0) -> Iterator[object]:
        yield from self._finish_left()
        settings = self.run.settings
        if (keep := settings.keep_runs) is not None:
            yield from self._delete_runs(self._choose(Limits(keep=keep + new_runs)), f"keep_runs is {keep:,}")
        if settings.keep_pages is not None:
            yield from self._prune_documents(settings.keep_pages)
        if settings.keep_events is not None:
            yield from self._delete_events(settings.keep_events)
        while settings.max_data is not None and (oldest := self._choose(Limits(max_bytes=settings.max_data))[:1]):
            yield from self._delete_runs(oldest, f"max_data is {megabytes(settings.max_data)}")

    def _choose(self, limits: Limits, *, last_done: int | None = None) -> "list[RunSize]":
        """The runs that limits no longer allow, but for the one of this supervisor."""
        from crawl_engine.supervise.retention.choice import choose_runs

        chosen = choose_runs(self.run.db, self.run.folder, limits, time.time(), last_done=last_done)
        return [size for size in chosen if size.past.seq != self.run.seq]

    def _delete_oldest(self) -> Iterator[object]:
        assert self.limit is not None
        yield from self._finish_left()  # a run that cannot be deleted must not cost one run after the other
        oldest = self._choose(Limits(max_bytes=self.limit.resume_bytes))[:1]
        self.limit.is_exhausted = not oldest
        yield from self._delete_runs(oldest, f"max_data is {megabytes(self.limit.max_bytes)}")

    def _delete_runs(self, chosen: "list[RunSize]", why: str) -> Iterator[object]:
        from crawl_engine.store.transactions import delete_run
        from crawl_engine.supervise.retention.deletion import delete_left

        if chosen:
            self._tell("INFO", f"{_describe(chosen)} deleted: {why}")
        for size in chosen:
            delete_run.begin(self.run.db, size.past.seq)
            yield None
        yield from delete_left(self.run.db, self.run.folder, with_documents=True, stop=self._is_over)

    def _prune_documents(self, age: float) -> Iterator[object]:
        from crawl_engine.store.transactions.prune import choose_documents, prune_documents

        with contextlib.closing(PageStore(self.run.folder)) as pages:
            choice = choose_documents(self.run.db, pages, Limits(older_than=age))
            yield None
            if len(choice.ids):
                count, size = plural(len(choice.ids), "older stored page"), megabytes(choice.bytes)
                self._tell("INFO", f"to be deleted: {count} ({size}), by keep_pages")
                yield from prune_documents(self.run.db, pages, choice, stop=self._is_over)

    def _delete_events(self, age: float) -> Iterator[object]:
        before = time.time() - age
        while events.delete_old(self.run.db, before, except_run=self.run.seq, limit=_EVENTS):
            yield None

    def _tell(self, level: events.Level, text: str) -> None:
        with self.run.db.transaction():
            self.run.log(level, "tidy", text)


def _describe(chosen: "list[RunSize]") -> str:
    """`run 3fa2c1 of 2026-11-20 (80 rows, about 1.2 MB)`, or several from the oldest to the newest."""
    first, last = (
        f"{size.past.id} of {time.strftime('%Y-%m-%d', time.localtime(size.past.created_at))}"
        for size in (chosen[0], chosen[-1])
    )
    which = f"run {first}" if len(chosen) == 1 else f"{len(chosen):,} runs from {first} to {last}"
    rows, total = sum(size.past.rows for size in chosen), sum(size.bytes for size in chosen)
    return f"{which} ({plural(rows, 'row')}, about {megabytes(total)})"
