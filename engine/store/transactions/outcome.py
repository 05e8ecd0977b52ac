"""What a node hands to the commit: the outcome of a leased job, with the rows, child jobs and document it made."""

from dataclasses import dataclass
from typing import NamedTuple

from engine.model.job import JobKind, JobState, LeasedJob
from engine.store.pages.documents import NewDocument
from engine.store.tables.events import Event


class ChildJob(NamedTuple):
    """A job to make: its group, its host (`name:port` and origin), and what makes it the same as another."""

    group: str
    host_key: str
    origin: str
    url: str
    depth: int
    priority: int
    identity: bytes
    kind: JobKind = JobKind.PAGE


class ExtractedRow(NamedTuple):
    """A row of one dataDef, by name and by id (store.versions), as JSON."""

    data_def: str
    data_def_id: int
    data: str


@dataclass(frozen=True, slots=True)
class RobotsResult:
    """What a host's robots.txt said: HTTP status (0: unreachable), text, seconds between requests it asks for."""

    status: int
    text: str
    crawl_delay: float


@dataclass(slots=True, kw_only=True)
class JobOutcome:
    """A job a node is done with, for now or for good. READY with `not_before`: to be tried again then.

    Filled in on its way to the committer, one owner at a time.
    """

    job: LeasedJob
    state: JobState
    reason: str | None = None
    attempts: int = 0
    not_before: float | None = None
    hops: int = 0
    target: str | None = None
    next_host: tuple[str, str] | None = None
    """Host key and origin of the host under whose clock it continues."""
    document: NewDocument | None = None
    page: int | None = None
    """The stored page it used: an earlier one, or where `document` lies, once it does."""
    rows: tuple[ExtractedRow, ...] = ()
    rejected: tuple[tuple[str, int], ...] = ()
    """Records turned away, by dataDef."""
    kept_data_defs: tuple[int, ...] = ()
    """Of a re-extraction: ids of the dataDefs whose rows stay."""
    children: tuple[ChildJob, ...] = ()
    events: tuple[Event, ...] = ()
    backoff_until: float | None = None
    """The host asked to be left alone until this boot-time second."""
    host_failed: bool = False
    robots: RobotsResult | None = None
    links_dropped: bool = False
    """Links of it were left out, since the defs now lack their groups."""
    fetches: int = 0
    """Answers that were read for it, with the seconds they took and the bytes of their bodies."""
    fetch_seconds: float = 0.0
    received_bytes: int = 0
