"""The outcome of a leased job: its new state, what the attempt cost, and its effects."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec import Struct, field

from crawl_engine.model.job import OPEN_STATES, JobKind, JobState, LeasedJob, ReasonCode
from crawl_engine.store.db.connector import Database


class Effect(Struct):
    """What an outcome changes besides its job. `transactions.effects` lists the one writer of each type."""

    def prepare(self) -> None:
        """Compute before the transaction what its writer needs: other nodes wait while that lasts."""


class Served(Effect):
    """The effect of a page or file that its host served: if the job is DONE, the strikes of the host are over."""


class Extracted(Effect):
    """What a page gave; a skipped page gives no such effect."""


class AttemptStats(Effect):
    """What an attempt cost; each outcome has one."""

    requests: int = 0
    """Requests sent for the job, without those that were counted before they were sent."""
    responses: int = 0
    """Responses read for the job, with the seconds they took and the bytes of their bodies."""
    seconds: float = 0.0
    received: int = 0
    answers: tuple[tuple[int, float], ...] = ()
    """Status and seconds of each answer to its requests for pages; status 0: there was none."""
    blocked: bool = False
    """Whether the last answer refused the crawler."""
    noindex: bool = False
    """Whether the page asks not to be indexed."""
    is_rendered: bool | None = None
    """Whether a browser loaded the page; None: its group has no browser, or no page came."""


_E = TypeVar("_E", bound=Effect)


class JobOutcome(Struct, kw_only=True):
    """The outcome of one attempt at a job. READY with `not_before`: the job is retried at that boot-time second.

    Mutable: filled in on its way to the committer, by one owner at a time.
    """

    job: LeasedJob
    state: JobState
    reason: str | None = None
    reason_code: ReasonCode | None = None
    attempts: int = 0
    not_before: float | None = None
    priority: int | None = None
    """The job's new priority; None: it stays."""
    hops: int = 0
    target: str | None = None
    next_host: tuple[str, str] | None = None
    """Host key and origin of the host to which a redirect moves the job."""
    page: int | None = None
    """Id of the stored page it used: an earlier one, or that of its new document once stored."""
    links_dropped: bool = False
    """Links were dropped, because the current defs lack their groups."""
    stats: AttemptStats = field(default_factory=AttemptStats)
    effects: tuple[Effect, ...] = ()
    on_settled: tuple[Callable[[], None], ...] = ()
    """Called once the outcome is committed or dropped, when what it holds is no longer in memory."""

    @property
    def unused_turn(self) -> float:
        """The seconds that its host was reserved for a request that was not sent; 0 if it is leased again."""
        is_open = self.state in OPEN_STATES
        sent = self.stats.requests or self.stats.answers
        return 0.0 if self.job.terms.send_at is None or is_open or sent else self.job.terms.delay

    @property
    def is_reextracted(self) -> bool:
        """Whether a re-extraction gave its page new rows."""
        return self.job.extraction.page_job is not None and self.state is JobState.DONE

    @property
    def is_served(self) -> bool:
        """Whether its host served a page or a file."""
        return any(isinstance(effect, Served) for effect in self.effects)

    def add(self, *effects: Effect) -> "JobOutcome":
        """Add effects; returns the outcome."""
        self.effects += effects
        return self

    def remove(self, kind: type[Effect]) -> None:
        """Remove the effects of a type."""
        self.effects = tuple([effect for effect in self.effects if type(effect) is not kind])

    def find(self, kind: type[_E]) -> _E | None:
        """The first effect of a type, not of its subtypes: `isinstance` is slow for a Struct."""
        for effect in self.effects:
            if type(effect) is kind:
                return effect
        return None

    def find_all(self, kind: type[_E]) -> list[_E]:
        """The effects of a type."""
        return [effect for effect in self.effects if type(effect) is kind]

    def release_when_settled(self, release: Callable[[], None]) -> None:
        """Have it called once the outcome is settled."""
        self.on_settled = (*self.on_settled, release)

    def settle(self) -> None:
        """Drop what takes memory, and report that. Harmless when repeated."""
        self.effects = ()
        callbacks, self.on_settled = self.on_settled, ()
        for callback in callbacks:
            callback()


class Placement(Struct, frozen=True):
    """Where a job is."""

    sequence: int
    host: int


class LeasedRow(Struct, frozen=True, array_like=True):
    """What the store says of a leased job."""

    id: int
    is_held: bool
    """Whether its lease is valid."""
    carries_other: bool
    """Whether its page carries something else now than what it was leased with."""
    document: str | None
    """The digest of its stored document, in hexadecimal; None: it has none."""


class Places(Protocol):
    """Finds or creates the placements of new jobs."""

    def find_or_create(self, db: Database, group: str, host_key: str, origin: str, kind: JobKind) -> Placement: ...


class Commit(Struct):
    """The open transaction of a commit. `now`: boot-time seconds."""

    db: Database
    run: int
    now: float
    places: Places
    reextract_stale: bool = True
    """Whether pages whose defs changed since their lease are re-extracted."""
    defs_version: int | None = None
    """The current one; None: not read yet."""
    has_landings: bool = True
    """Whether redirects may have led to pages of the run."""
    leased: dict[int, LeasedRow] = field(default_factory=dict)
    """What the store says of the jobs of the outcomes that are written now, by id."""
    touched_hosts: set[int] = field(default_factory=set)
    """Hosts whose sequences may have to be rung."""
    vacant_keys: set[bytes] = field(default_factory=set)
    """Unique keys of rows that were deleted."""
    due: set[float] = field(default_factory=set)
    """Boot-time seconds at which to look for leasable jobs again."""
