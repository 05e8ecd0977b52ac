"""The outcome of a leased job, with the rows, child jobs and document it made."""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct, field

from engine.model.content_digest import Digests
from engine.model.file import StoredFile
from engine.model.job import OPEN_STATES, JobKind, JobState, LeasedJob
from engine.model.record import RecordCounts, Texts
from engine.model.step import StepResult
from engine.store.db.connector import Database
from engine.store.pages.documents import CheckedDocument, NewDocument
from engine.store.tables.run.events import Event


class ChildJob(NamedTuple):
    """A job to create: its group, its host (`name:port` and origin), and the identity that makes it unique."""

    group: str
    host_key: str
    origin: str
    url: str
    depth: int
    priority: int
    identity: bytes
    kind: JobKind = JobKind.PAGE
    may_leave_host: bool = False
    request: str | None = None
    """What it sends besides its URL (`link.LinkRequest`)."""
    carried: str | None = None
    """What its parent gives it (`link.Carried`)."""
    page_key: bytes | None = None
    """The identity of a plain link to the same page, if that differs."""
    in_series: bool = False
    """Whether it is a page of the locator whose page makes it."""
    fresh_since: float | None = None
    """The wall-clock second since when a stored document replaces its fetch; None: as its group says."""


class ExtractedRows(NamedTuple):
    """The rows that a dataDef made of a page, as JSON, with its name and its id (tables.versions)."""

    data_def: str
    data_def_id: int
    texts: Texts
    digests: Digests = Digests()
    """Of each row; the commit computes those that are missing."""


class HeldRows(NamedTuple):
    """Rows of a dataDef that wait for files, with its name and its id (tables.versions)."""

    data_def: str
    data_def_id: int
    texts: Texts
    """The rows as JSON objects, with URLs in the places of files."""
    places: Texts
    """Of each row a JSON list of pairs: the place of a file, as keys and indexes, and the file's number."""
    files: bytes
    """The identities of the page's files, one after another in the order of their numbers."""


class PageCounts(NamedTuple):
    """How the records of a page were filled, with the id (tables.versions) of their dataDef."""

    data_def_id: int
    counts: RecordCounts
    defaulted: frozenset[str] = frozenset()
    """The fields that have a default."""


class UnitResult(NamedTuple):
    """What became of a plugin step on a page, with the id (tables.versions) of its unit, and its group."""

    data_def_id: int
    group: str
    result: StepResult


class RobotsResult(Struct, frozen=True):
    """A host's robots.txt: HTTP status (0: no answer), text, and its crawl delay in seconds."""

    status: int
    text: str
    """Of the file, or why it cannot be read."""
    crawl_delay: float
    agent: str = ""
    """The product token it was read for."""
    fetched_at: float | None = None
    """Wall clock, seconds since 1970; None: it could not be read."""


class ChangedJar(Protocol):
    """The cookies of a site, which all nodes share."""

    def write(self, db: Database, run: int) -> None:
        """Write them in the open transaction, merged with what other nodes have written."""


class JobOutcome(Struct, kw_only=True):
    """The outcome of one attempt at a job. READY with `not_before`: the job is retried at that boot-time second.

    Mutable: filled in on its way to the committer, by one owner at a time.
    """

    job: LeasedJob
    state: JobState
    reason: str | None = None
    attempts: int = 0
    not_before: float | None = None
    hops: int = 0
    target: str | None = None
    next_host: tuple[str, str] | None = None
    """Host key and origin of the host to which a redirect moves the job."""
    document: NewDocument | None = None
    page: int | None = None
    """Id of the stored page it used: an earlier one, or that of `document` once stored."""
    keeps_document: bool | None = None
    """Whether its group keeps documents beyond the end of the run; None: all groups do."""
    checked: CheckedDocument | None = None
    """The stored document that serves, because the site says that it is unchanged."""
    rows: tuple[ExtractedRows, ...] = ()
    """By dataDef; none is empty."""
    held: tuple[HeldRows, ...] = ()
    """Rows that wait for files, whose jobs are among the children."""
    file: StoredFile | None = None
    """What a job of the kind FILE downloaded."""
    rejected: tuple[tuple[str, int], ...] = ()
    """Number of rejected records, by dataDef."""
    counts: tuple[PageCounts, ...] = ()
    results: tuple[UnitResult, ...] = ()
    """What became of plugin steps."""
    ran_plugins: bool = False
    """Whether its page went through plugin code, which may have stored a checkpoint."""
    stored_values: Mapping[str, str] = field(default_factory=dict)
    """What plugin steps store in the commit: JSON by key."""
    kept_data_defs: tuple[int, ...] = ()
    """For a re-extraction: ids of the dataDefs whose rows stay."""
    children: tuple[ChildJob, ...] = ()
    later_children: Iterator[tuple[ChildJob, ...]] | None = None
    """Further children in pieces, of a page that has many: they are made when the pieces before are committed."""
    events: tuple[Event, ...] = ()
    backoff_until: float | None = None
    """The host's backoff ends at this boot-time second."""
    throttled: bool = False
    """Whether an answer was 429 or 503."""
    strike: bool = False
    """Whether that answer was the first of its burst, and lengthens the next backoff."""
    host_failed: bool = False
    blocked: bool = False
    """Whether the last answer refused the crawler."""
    priority: int | None = None
    """The job's new priority; None: it stays."""
    gone: bool = False
    """Whether its page was answered with 404 or 410."""
    refused_host: str | None = None
    """SKIPPED because the address guard refused this host (`name:port`), which a locator may name meanwhile."""
    robots: RobotsResult | None = None
    asks_robots: bool = False
    """Whether the host's robots.txt must be asked for first: the address guard refused that, and now it would not."""
    logged_out: Literal["", "relogin", "pause"] = ""
    """What follows a page that was answered without a login, while the login is in force; empty: it was not."""
    changed_jars: tuple[ChangedJar, ...] = ()
    """The cookies that sites changed with its answers, and that nodes share."""
    noindex: bool = False
    """Whether the page asks not to be indexed."""
    links_dropped: bool = False
    """Links were dropped, because the current defs lack their groups."""
    requests: int = 0
    """Requests sent for the job, without those that were counted before they were sent."""
    fetches: int = 0
    """Responses read for the job, with the seconds they took and the bytes of their bodies."""
    fetch_seconds: float = 0.0
    received_bytes: int = 0
    answers: tuple[tuple[int, float], ...] = ()
    """Status and seconds of each answer to its requests for pages; status 0: there was none."""
    on_settled: tuple[Callable[[], None], ...] = ()
    """Called once the outcome is committed or dropped, when what it holds is no longer in memory."""

    @property
    def unused_turn(self) -> float:
        """The seconds that its host was reserved for a request that was not sent; 0 if it is leased again."""
        is_open = self.state in OPEN_STATES
        return 0.0 if self.job.send_at is None or is_open or self.requests or self.answers else self.job.delay

    @property
    def is_reextracted(self) -> bool:
        """Whether a re-extraction gave its page new rows."""
        return self.job.page_job is not None and self.state is JobState.DONE

    @property
    def step_failed(self) -> bool:
        """Whether a plugin step failed on its page: the job is FAILED, and keeps the rows of its other tasks."""
        if self.state is not JobState.FAILED or not self.results or self.page is None:
            return False
        return any(result.outcome == "error" for _, _, result in self.results)

    @property
    def leads_to_one_page(self) -> bool:
        """Whether its page leads to one further page, as those of a series do, and to nothing else.

        False if that page needs what the commit of this one writes: shared cookies, values that plugin steps stored,
        or the next send time of its host.
        """
        return (
            len(self.children) == 1
            and self.children[0].kind is JobKind.PAGE
            and self.state is JobState.DONE
            and self.job.kind is JobKind.PAGE
            and self.later_children is None
            and not self.changed_jars
            and not self.stored_values
            and not self.job.delay
        )

    @property
    def row_data_defs(self) -> list[str]:
        return [made.data_def for of_kind in (self.rows, self.held) for made in of_kind]

    def next_children(self) -> int:
        """Make the next children; returns how many. An empty piece is the last one."""
        piece = next(self.later_children, ()) if self.later_children is not None else ()
        if not piece:
            self.later_children = None
        self.children += piece
        return len(piece)

    def release_when_settled(self, release: Callable[[], None]) -> None:
        """Have it called once the outcome is settled."""
        self.on_settled = (*self.on_settled, release)

    def settle(self) -> None:
        """Drop what takes memory, and report that. Harmless when repeated."""
        self.document = self.later_children = None
        self.rows, self.held, self.children = (), (), ()
        callbacks, self.on_settled = self.on_settled, ()
        for callback in callbacks:
            callback()
