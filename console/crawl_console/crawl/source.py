"""Reads the database of a data dir again and again, for the thread that polls it."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from crawl_console.client import end_orphans, explain_host, has_supervisor, read_body, read_job, supervisor_pid
from crawl_engine.errors import CrawlError
from crawl_engine.model.definition import Definitions
from crawl_engine.runtime.beat_file import SUPERVISOR_BEAT, read_beat
from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.db.data_dir import has_store
from crawl_engine.store.db.file_header import CRAWL, PAGES, OtherDatabase, check_data_dir
from crawl_engine.store.db.filter import EventFilter, HostFilter, JobFilter
from crawl_engine.store.read import browse, failures, history, host_rows, snapshot
from crawl_engine.store.read.browse import Cursor, JobDetail, Listing
from crawl_engine.store.read.event_search import EventListing, list_events
from crawl_engine.store.read.failures import FailureGroup, HostErrors
from crawl_engine.store.read.history import RunReport
from crawl_engine.store.read.host_rows import HostRow
from crawl_engine.store.read.snapshot import EMPTY_SNAPSHOT, Snapshot
from crawl_engine.store.tables.run import events, runs, samples, versions
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.tables.run.runs import LastEnd
from crawl_engine.store.tables.run.samples import Sample

_BUSY_SECONDS = 2.0
_MAX_ERRORS, _MAX_FAILURE_GROUPS, _MAX_RUNS = 200, 1_000, 50
_MAX_PAGE_RATES = 240

LogLines = Sequence[tuple[int, Event]]


ViewQuery = Callable[["DataSource", Snapshot], Any]
"""A view's query beyond the snapshot: runs on the poller's thread with source and snapshot; touches no widget."""


class AcceptedDefs(Struct, frozen=True):
    """A def version: its number, when it was accepted (wall clock), and its definitions."""

    version: int
    at: float
    definitions: Definitions


class SupervisorBeat(Struct, frozen=True):
    """The last heartbeat of the supervisor: its age, and how long its last tick took, in seconds."""

    age: float
    tick: float


class PollResult(Struct, frozen=True):
    """One poll. `at` and `duration` are monotonic seconds; `view_data` is the result of the requester's query."""

    at: float
    duration: float
    snapshot: Snapshot
    supervisor_pid: int | None
    accepted_defs: AcceptedDefs | None = None
    view_data: Any = None
    requester: Any = None
    """Whose query it was: a result that arrives after the operator left the view is ignored."""
    log: tuple[int, LogLines] | None = None
    """The run and its new log lines; None: the view shows no log."""

    supervisor_beat: SupervisorBeat | None = None
    page_rates: Sequence[float] = ()
    """Pages a second of the run's last samples, the oldest first."""

    @property
    def is_live(self) -> bool:
        """Whether a supervisor is at work."""
        return self.supervisor_pid is not None

    @property
    def waiting_defs(self) -> dict[str, Any] | None:
        """The saved defs that a living supervisor would publish: `hash`, `text`, `at`; None if no defs wait."""
        return self.snapshot.defs_saved if self.supervisor_pid is not None else None


class DataSource:
    """Reads on one read-only connection, on one thread. Methods raise CrawlError if the database cannot be read now."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._db: Database | None = None
        self._snapshot_key: tuple[int, int] | None = None
        self._last_snapshot = EMPTY_SNAPSHOT
        self._reports: dict[int, RunReport] = {}
        self._has_waits = False
        """Whether the last snapshot shows waits: their seconds change without a write."""

    @property
    def db(self) -> Database:
        """The connection. Raises OtherDatabase, StorageError."""
        if self._db is None:
            check_data_dir(self.data)
            db = connect(self.data / CRAWL, read_only=True, busy_seconds=_BUSY_SECONDS)
            if db.file != db.path and has_supervisor(db):
                db.close()
                raise OtherDatabase(
                    f"{self.data}: a supervisor of an older version of crawl-console works on it",
                    "Use the console of that version, or end it with SIGTERM and start again.",
                )
            self._db = db
        return self._db

    def snapshot(self, limit: int) -> Snapshot:
        """The newest run, with at most `limit` sequences and hosts; cached until the database changes."""
        if not has_store(self.data) or not self.db.has_tables():
            return EMPTY_SNAPSHOT
        key = (self.db.data_version, limit)
        if key != self._snapshot_key or self._has_waits:
            self._last_snapshot = snapshot.read(self.db, limit=limit)
            self._snapshot_key = key
            self._has_waits = any(host.next_in or host.backoff for host in self._last_snapshot.hosts)
        return self._last_snapshot

    def supervisor_pid(self, snapshot: Snapshot) -> int | None:
        return supervisor_pid(snapshot)

    def supervisor_beat(self) -> SupervisorBeat | None:
        path = self.data / "beats" / SUPERVISOR_BEAT
        try:
            age = time.time() - path.stat().st_mtime
        except OSError:
            return None
        beat = read_beat(path)
        return SupervisorBeat(max(0.0, age), beat.lag) if beat is not None else None

    def events(self, run: int, after: int, limit: int) -> LogLines:
        return events.list_after(self.db, run, after, limit)

    def trouble(self, run: int, after: int, upto: int, limit: int) -> LogLines:
        """The last warnings and errors of a run with ids between these, oldest first."""
        return events.list_trouble(self.db, run, after, upto, limit)

    def last_event_id(self) -> int:
        return events.last_id(self.db)

    def last_events(self, run: int, event_filter: EventFilter, limit: int) -> LogLines:
        """The newest lines that match, oldest first, as far as a short search gets."""
        before = self.last_event_id() + 1
        return list(list_events(self.db, run, event_filter, before=before, limit=limit).events)

    def jobs(self, run: int, job_filter: JobFilter, after: Cursor | None, limit: int, *, backwards: bool) -> Listing:
        return browse.list_jobs(self.db, run, job_filter, after=after, limit=limit, backwards=backwards)

    def job(self, id_: int) -> JobDetail | None:
        return read_job(self.db, self.data, id_)

    def host(self, run: int, host: str) -> HostRow | None:
        """A host (`name:port`), also one that the snapshot leaves out."""
        return host_rows.get_host(self.db, run, host)

    def find_hosts(self, run: int, host_filter: HostFilter, offset: int, limit: int) -> tuple[list[HostRow], int]:
        """A page of the hosts that match, and how many match."""
        return host_rows.find_hosts(self.db, run, host_filter, offset, limit)

    def listed_events(self, run: int, event_filter: EventFilter, before: int, limit: int) -> EventListing:
        """The last lines below an id that match, oldest first, and where the search continues."""
        return list_events(self.db, run, event_filter, before=before, limit=limit)

    def count_jobs(self, run: int, job_filter: JobFilter) -> int:
        return browse.count_jobs(self.db, run, job_filter)

    def host_waits(self, run: int, host: str) -> list[str]:
        """Why the jobs of a host (`name:port`) wait, a line for each of its first groups."""
        return explain_host(self.db, run, host)

    def host_errors(self, run: int, host: str) -> HostErrors:
        """Why pages of a host (`name:port`) failed, and its last errors."""
        return failures.read_host_errors(self.db, run, host, _MAX_ERRORS)

    def host_events(self, run: int, host: str, limit: int) -> list[Event]:
        """The newest warnings and errors of a host (`name:port`)."""
        return failures.list_host_events(self.db, run, host, limit)

    def failure_groups(self, run: int) -> list[FailureGroup]:
        return failures.group_failures(self.db, run, _MAX_FAILURE_GROUPS)

    def failure_times(self, run: int, group: FailureGroup) -> list[float]:
        """When the pages of a group failed, wall clock."""
        return failures.list_failure_times(self.db, run, group.host, group.reason)

    def failure_bounds(self, run: int) -> dict[tuple[str, str], tuple[float, float]]:
        """When pages failed first and last, by host and reason."""
        return failures.read_failure_bounds(self.db, run)

    def ended(self, run: int) -> tuple[float | None, int | None]:
        """When a run ended, wall clock, and its exit code."""
        return runs.get_ended_at(self.db, run), runs.get_exit_code(self.db, run)

    def last_success(self) -> float | None:
        """When a run last ended with exit code 0, wall clock."""
        return runs.last_success(self.db)

    def last_end(self) -> LastEnd | None:
        """The end of the run that ended last."""
        return runs.last_end(self.db)

    def run_reports(self) -> list[RunReport]:
        """The newest runs with their results. An ended run is read again only if it changed."""
        if not has_store(self.data):
            return []
        with self.db.snapshot():  # a run may be deleted meanwhile
            for past in (past_runs := history.list_runs(self.db, _MAX_RUNS)):
                kept = self._reports.get(past.seq)
                if kept is None or kept.past != past:
                    self._reports[past.seq] = history.read_report(self.db, past)
        return [self._reports[past.seq] for past in past_runs]

    def page_rates(self, run: int) -> list[float]:
        return samples.list_page_rates(self.db, run, _MAX_PAGE_RATES)

    def samples(self, run: int, since: float) -> list[Sample]:
        return samples.list_since(self.db, run, since)

    def accepted_defs(self, version: int) -> AcceptedDefs | None:
        at = versions.get_accepted_at(self.db, version)
        return None if at is None else AcceptedDefs(version, at, versions.read(self.db, version))

    def document_body(self, document: int) -> bytes | None:
        """A stored body; None if it is missing."""
        return read_body(self.data, document) if has_store(self.data, PAGES) else None

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def poll(source: DataSource, limit: int, clock: Callable[[], float] = time.monotonic) -> PollResult:
    """One poll, with at most `limit` sequences and hosts. Raises CrawlError."""
    started = clock()
    snapshot = source.snapshot(limit)
    pid = source.supervisor_pid(snapshot)
    if pid is None:
        snapshot = end_orphans(snapshot)
    beat = source.supervisor_beat() if pid is not None else None
    rates = source.page_rates(snapshot.run.seq) if snapshot.run is not None else ()
    return PollResult(started, clock() - started, snapshot, pid, supervisor_beat=beat, page_rates=rates)


def describe_error(error: Exception) -> str:
    return error.message if isinstance(error, CrawlError) else f"{type(error).__name__}: {error}"
