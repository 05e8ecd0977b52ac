"""Where a console's figures come from: a protocol, so that a test can be one, and the store that is one."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from console.cli.commands.status import supervisor_of
from engine.errors import CrawlError
from engine.model.definition import Definitions
from engine.store.db.connector import Database
from engine.store.db.filter import Filter
from engine.store.db.schema import CRAWL, PAGES, prepared
from engine.store.read import browse, snapshot
from engine.store.read.browse import Cursor, JobDetail, Listing
from engine.store.read.snapshot import NOTHING, Snapshot
from engine.store.tables import events, samples, versions
from engine.store.tables.events import Event
from engine.store.tables.samples import Sample

_BUSY_SECONDS = 2.0

Lines = list[tuple[int, Event]]


@dataclass(frozen=True, slots=True)
class Accepted:
    """A def version: its number, the wall-clock moment it was accepted, and what it says."""

    version: int
    at: float
    definitions: Definitions


class Source(Protocol):
    """What a poll may ask, on one thread. Each raises CrawlError where the database cannot be read now."""

    def snapshot(self, shown: int) -> Snapshot:
        """The run as it stands, with at most `shown` sequences and hosts."""

    def supervisor(self, look: Snapshot) -> int | None:
        """The pid of the supervisor, where one is alive."""

    def events(self, run: int, after: int, limit: int) -> Lines:
        """The next lines of the log."""

    def last_event(self) -> int:
        """The id of the newest line."""

    def reasons(self, run: int, limit: int) -> list[str]:
        """Why jobs failed, one text a job, the first ones."""

    def jobs(self, run: int, wanted: Filter, after: Cursor | None, limit: int, *, backwards: bool) -> Listing:
        """A part of the list of jobs."""

    def job(self, id_: int) -> JobDetail | None:
        """One job in full."""

    def body(self, document: int) -> bytes | None:
        """A document as fetched; None: it is missing."""

    def samples(self, run: int, since: float) -> list[Sample]:
        """How fast the run was, from a moment on."""

    def defs(self, version: int) -> Accepted | None:
        """The def version a run is worked with."""

    def close(self) -> None:
        """Let go of the database."""


Reading = Callable[[Any, Snapshot], Any]
"""What a screen wants beyond the snapshot: called with both on the poller's thread, it touches no widget."""


@dataclass(frozen=True, slots=True)
class Look:
    """One poll. `at` and `took` are monotonic seconds; `found` is what the visible screen asked for."""

    at: float
    took: float
    snapshot: Snapshot
    supervisor: int | None
    accepted: Accepted | None = None
    found: Any = None
    asked: Any = None
    """Who asked: an answer that comes after the operator moved on is for nobody."""


class Store:
    """The data dir of a run, on one read-only connection."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._db: Database | None = None
        self._known: tuple[int, int] | None = None
        self._last = NOTHING
        self._clocks = False
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
            return NOTHING
        if not prepared(self.db):
            return NOTHING
        known = (self.db.version, shown)
        if known != self._known or self._clocks:
            self._last = snapshot.read(self.db, shown=shown)
            self._known = known
            self._clocks = any(host["next_in"] or host["backoff"] for host in self._last.hosts)
        return self._last

    def supervisor(self, look: Snapshot) -> int | None:
        """The pid of the supervisor, where one is alive."""
        return supervisor_of(look)

    def events(self, run: int, after: int, limit: int) -> Lines:
        """The next lines of the log."""
        return events.after(self.db, run, after, limit)

    def last_event(self) -> int:
        """The id of the newest line."""
        return events.last(self.db)

    def reasons(self, run: int, limit: int) -> list[str]:
        """Why jobs failed, one text a job, the first ones."""
        return [why for _, why in snapshot.failures(self.db, run, limit)]

    def jobs(self, run: int, wanted: Filter, after: Cursor | None, limit: int, *, backwards: bool) -> Listing:
        """A part of the list of jobs."""
        return browse.page(self.db, run, wanted, after=after, limit=limit, backwards=backwards)

    def job(self, id_: int) -> JobDetail | None:
        """One job in full."""
        pages = Database.open(self.data / PAGES, read_only=True, busy_seconds=_BUSY_SECONDS)
        try:
            return browse.detail(self.db, id_, pages=pages)
        finally:
            pages.close()

    def samples(self, run: int, since: float) -> list[Sample]:
        """How fast the run was, from a moment on."""
        return samples.since(self.db, run, since)

    def defs(self, version: int) -> Accepted | None:
        """The def version a run is worked with."""
        at = versions.accepted_at(self.db, version)
        return None if at is None else Accepted(version, at, versions.read(self.db, version))

    def body(self, document: int) -> bytes | None:
        """A document as fetched; None: it is missing."""
        from engine.store.pages.documents import Pages

        pages = Pages(self.data, read_only=True)
        try:
            return pages.read(document)
        finally:
            pages.close()

    def close(self) -> None:
        """Let go of the database."""
        if self._db is not None:
            self._db.close()
            self._db = None


def told(error: Exception) -> str:
    """A failed poll in one line."""
    return error.what if isinstance(error, CrawlError) else f"{type(error).__name__}: {error}"
