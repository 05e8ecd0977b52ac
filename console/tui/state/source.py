"""Where a console's figures come from: a protocol, so that a test can be one, and the store that is one."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from console.cli.commands.status import supervisor_pid
from engine.errors import CrawlError
from engine.model.definition import Definitions
from engine.store.db.connector import Database
from engine.store.db.filter import JobFilter
from engine.store.db.schema import CRAWL, PAGES, has_schema
from engine.store.read import browse, snapshot
from engine.store.read.browse import Cursor, JobDetail, Listing
from engine.store.read.snapshot import EMPTY_SNAPSHOT, Snapshot
from engine.store.tables import events, samples, versions
from engine.store.tables.events import Event
from engine.store.tables.samples import Sample

_BUSY_SECONDS = 2.0

LogLines = list[tuple[int, Event]]


@dataclass(frozen=True, slots=True)
class AcceptedDefs:
    """A def version: its number, the wall-clock moment it was accepted, and what it says."""

    version: int
    at: float
    definitions: Definitions


class DataSource(Protocol):
    """What a poll may ask, on one thread. Each raises CrawlError where the database cannot be read now."""

    def snapshot(self, shown: int) -> Snapshot:
        """The run as it stands, with at most `shown` sequences and hosts."""

    def supervisor_pid(self, look: Snapshot) -> int | None:
        """The pid of the supervisor, where one is alive."""

    def events(self, run: int, after: int, limit: int) -> LogLines:
        """The next lines of the log."""

    def last_event_id(self) -> int:
        """The id of the newest line."""

    def failure_reasons(self, run: int, limit: int) -> list[str]:
        """Why jobs failed, one text a job, the first ones."""

    def jobs(self, run: int, wanted: JobFilter, after: Cursor | None, limit: int, *, backwards: bool) -> Listing:
        """A part of the list of jobs."""

    def job(self, id_: int) -> JobDetail | None:
        """One job in full."""

    def document_body(self, document: int) -> bytes | None:
        """A document as fetched; None: it is missing."""

    def samples(self, run: int, since: float) -> list[Sample]:
        """How fast the run was, from a moment on."""

    def accepted_defs(self, version: int) -> AcceptedDefs | None:
        """The def version a run is worked with."""

    def close(self) -> None:
        """Let go of the database."""


ViewQuery = Callable[[Any, Snapshot], Any]
"""What a screen wants beyond the snapshot: called with both on the poller's thread, it touches no widget."""


@dataclass(frozen=True, slots=True)
class PollResult:
    """One poll. `at` and `took` are monotonic seconds; `found` is what the visible screen asked for."""

    at: float
    duration: float
    snapshot: Snapshot
    supervisor_pid: int | None
    accepted_defs: AcceptedDefs | None = None
    view_data: Any = None
    requester: Any = None
    """Who asked: an answer that comes after the operator moved on is for nobody."""


class DatabaseSource:
    """The data dir of a run, on one read-only connection."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._db: Database | None = None
        self._snapshot_key: tuple[int, int] | None = None
        self._last_snapshot = EMPTY_SNAPSHOT
        self._has_waits = False
        """Whether the last snapshot tells of waits, which pass without anybody writing."""

    @property
    def db(self) -> Database:
        """The connection. Raises StorageError."""
        if self._db is None:
            self._db = Database.open(self.data / CRAWL, read_only=True, busy_seconds=_BUSY_SECONDS)
        return self._db

    def snapshot(self, shown: int) -> Snapshot:
        """The newest run; NOTHING where there is none yet."""
        if not (self.data / CRAWL).exists():
            return EMPTY_SNAPSHOT
        if not has_schema(self.db):
            return EMPTY_SNAPSHOT
        known = (self.db.data_version, shown)
        if known != self._snapshot_key or self._has_waits:
            self._last_snapshot = snapshot.read(self.db, limit=shown)
            self._snapshot_key = known
            self._has_waits = any(host.next_in or host.backoff for host in self._last_snapshot.hosts)
        return self._last_snapshot

    def supervisor_pid(self, look: Snapshot) -> int | None:
        """The pid of the supervisor, where one is alive."""
        return supervisor_pid(look)

    def events(self, run: int, after: int, limit: int) -> LogLines:
        """The next lines of the log."""
        return events.list_after(self.db, run, after, limit)

    def last_event_id(self) -> int:
        """The id of the newest line."""
        return events.last_id(self.db)

    def failure_reasons(self, run: int, limit: int) -> list[str]:
        """Why jobs failed, one text a job, the first ones."""
        return [why for _, why in snapshot.list_failures(self.db, run, limit)]

    def jobs(self, run: int, wanted: JobFilter, after: Cursor | None, limit: int, *, backwards: bool) -> Listing:
        """A part of the list of jobs."""
        return browse.list_jobs(self.db, run, wanted, after=after, limit=limit, backwards=backwards)

    def job(self, id_: int) -> JobDetail | None:
        """One job in full."""
        pages = Database.open(self.data / PAGES, read_only=True, busy_seconds=_BUSY_SECONDS)
        try:
            return browse.get_detail(self.db, id_, pages=pages)
        finally:
            pages.close()

    def samples(self, run: int, since: float) -> list[Sample]:
        """How fast the run was, from a moment on."""
        return samples.list_since(self.db, run, since)

    def accepted_defs(self, version: int) -> AcceptedDefs | None:
        """The def version a run is worked with."""
        at = versions.get_accepted_at(self.db, version)
        return None if at is None else AcceptedDefs(version, at, versions.read(self.db, version))

    def document_body(self, document: int) -> bytes | None:
        """A document as fetched; None: it is missing."""
        from engine.store.pages.documents import PageStore

        pages = PageStore(self.data, read_only=True)
        try:
            return pages.read(document)
        finally:
            pages.close()

    def close(self) -> None:
        """Let go of the database."""
        if self._db is not None:
            self._db.close()
            self._db = None


def describe_error(error: Exception) -> str:
    """A failed poll in one line."""
    return error.message if isinstance(error, CrawlError) else f"{type(error).__name__}: {error}"
