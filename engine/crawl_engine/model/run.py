"""A run: its states and their transitions, the stages of its supervisor, estimate, rates, alarms."""

from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.model.host import HostState

AlarmLevel = Literal["warn", "bad"]
_TROUBLES = {
    **dict.fromkeys(("host-silent", "host-refused", "host-resting", "blocked", "failing-requests"), "reach"),
    **dict.fromkeys(("empty-field", "dropped-field", "less-filled"), "filled"),
    **dict.fromkeys(("no-rows", "dropped-rows", "fewer-rows"), "rows"),
}
"""By code: what the trouble is. A host that is silent and then fails has one trouble."""
_REPORTED = ("code", "text", "host", "data_def", "field", "since", "acknowledged")
"""The keys of `alarms` in `status --json`."""


class RunState(StrEnum):
    """The state of a run. Every state but DONE can be resumed."""

    NEW = "NEW"
    SEEDING = "SEEDING"
    READY = "READY"
    DRAINING = "DRAINING"
    DONE = "DONE"
    CANCELLED = "CANCELLED"
    KILLED = "KILLED"
    FAILED = "FAILED"

    @property
    def is_open(self) -> bool:
        """Whether the run is active, or should be."""
        return self in (RunState.NEW, RunState.SEEDING, RunState.READY, RunState.DRAINING)


class SeedingProgress(Struct, frozen=True, kw_only=True):
    """How far a list of seeds is read: its jobs are written in the same transaction."""

    group: str
    locator: int
    """Its place in the group; the ones before it are seeded."""
    content_hash: str
    """Of the seeder of the group."""
    list: str
    """The list, for messages."""
    stamp: str = ""
    """Of the file; another stamp means another content, which is read from its start."""
    offset: int = 0
    """Bytes read."""
    line: int = 0
    """Lines read."""
    size: int | None = None
    """Bytes of the file; None: unknown."""
    seeds: int = 0
    unusable: int = 0
    """Lines that give no job."""
    empty: tuple[str, ...] = ()
    """The lists of the group before it that are empty."""

    def is_of(self, other: "SeedingProgress") -> bool:
        """Whether both are of the same list."""
        return (self.group, self.locator, self.content_hash) == (other.group, other.locator, other.content_hash)

    @property
    def total(self) -> int | None:
        """The number of lines, estimated from those read; None: unknown."""
        return round(self.line * self.size / self.offset) if self.size and self.offset else None

    def as_dict(self) -> dict[str, Any]:
        """As `status --json` prints it."""
        return {"list": self.list, "read": self.line, "total": self.total, "unusable": self.unusable}


class Stage(StrEnum):
    """What the supervisor is doing with a run."""

    INIT = "INIT"
    CHECK_LOCK = "CHECK_LOCK"
    ABORT = "ABORT"
    START_APPENDER = "START_APPENDER"
    START_NODES = "START_NODES"
    RUNNING = "RUNNING"
    CRAWL_COMPLETE = "CRAWL_COMPLETE"
    INTERRUPTED = "INTERRUPTED"
    STOPPING_NODES_GRACEFUL = "STOPPING_NODES_GRACEFUL"
    STOPPING_APPENDER_GRACEFUL = "STOPPING_APPENDER_GRACEFUL"
    STOPPING_NODES_FORCEFUL = "STOPPING_NODES_FORCEFUL"
    STOPPING_APPENDER_FORCEFUL = "STOPPING_APPENDER_FORCEFUL"
    RELEASING_LOCK = "RELEASING_LOCK"
    SHUTDOWN_COMPLETE = "SHUTDOWN_COMPLETE"


_R = RunState
_STOPS = {_R.CANCELLED, _R.KILLED, _R.FAILED}

RUN_TRANSITIONS: dict[RunState, frozenset[RunState]] = {
    _R.NEW: frozenset({_R.SEEDING, *_STOPS}),
    _R.SEEDING: frozenset({_R.READY, *_STOPS}),
    _R.READY: frozenset({_R.DRAINING, _R.SEEDING, *_STOPS}),
    _R.DRAINING: frozenset({_R.READY, _R.SEEDING, _R.DONE, *_STOPS}),
    _R.DONE: frozenset({_R.READY, _R.SEEDING}),
    **{stopped: frozenset({_R.SEEDING, _R.READY, *_STOPS} - {stopped}) for stopped in _STOPS},
}
"""DONE → READY is an operator's retry; resuming a run and publishing a def version enter SEEDING again.
A resumed run may be stopped again before it seeds.
"""

_G = Stage
_STOPPING = {_G.STOPPING_NODES_GRACEFUL, _G.STOPPING_NODES_FORCEFUL}

STAGE_TRANSITIONS: dict[Stage, frozenset[Stage]] = {
    _G.INIT: frozenset({_G.CHECK_LOCK}),
    _G.CHECK_LOCK: frozenset({_G.ABORT, _G.START_APPENDER}),
    _G.ABORT: frozenset({_G.RELEASING_LOCK, _G.SHUTDOWN_COMPLETE}),
    _G.START_APPENDER: frozenset({_G.START_NODES, _G.INTERRUPTED, _G.ABORT}),
    _G.START_NODES: frozenset({_G.RUNNING, _G.INTERRUPTED, _G.ABORT}),
    _G.RUNNING: frozenset({_G.CRAWL_COMPLETE, _G.INTERRUPTED}),
    _G.CRAWL_COMPLETE: frozenset(_STOPPING),
    _G.INTERRUPTED: frozenset(_STOPPING),
    _G.STOPPING_NODES_GRACEFUL: frozenset({_G.STOPPING_APPENDER_GRACEFUL, _G.STOPPING_NODES_FORCEFUL}),
    _G.STOPPING_NODES_FORCEFUL: frozenset({_G.STOPPING_APPENDER_GRACEFUL, _G.STOPPING_APPENDER_FORCEFUL}),
    _G.STOPPING_APPENDER_GRACEFUL: frozenset({_G.STOPPING_APPENDER_FORCEFUL, _G.RELEASING_LOCK}),
    _G.STOPPING_APPENDER_FORCEFUL: frozenset({_G.RELEASING_LOCK}),
    _G.RELEASING_LOCK: frozenset({_G.SHUTDOWN_COMPLETE}),
    _G.SHUTDOWN_COMPLETE: frozenset(),
}


class Eta(Struct, frozen=True):
    """An estimate. Field names and their order are the keys of `eta` in `status --json`."""

    seconds: float | None = None
    """None: unknown, paused, or nothing runs."""
    bound_by: str | None = None
    """The host (`name:port`) whose pages end last; `nodes`, a limit of the run, or `paused`."""
    exact: bool = False
    """Whether no new pages appear and none is paused; otherwise the estimate is a lower bound."""
    reason: str | None = None
    """Why that host is slow: its delay or its backoff. Without seconds: why nobody can say."""
    paused: int = 0
    """Pages of paused sequences and hosts, which the estimate leaves out."""


NO_ETA = Eta()


class HostGroup(Struct, frozen=True):
    """The hosts of a run with one state. `names`: the first of them (`name:port`), those with most pages left first."""

    state: HostState
    count: int
    names: tuple[str, ...] = ()


class OutputRate(Struct, frozen=True):
    """What an output gets each second."""

    rows_per_s: float = 0.0
    bytes_per_s: float = 0.0


NO_RATE = OutputRate()


class Judgement(Struct, frozen=True):
    """All rates are over the same last seconds, so that parts agree with sums."""

    pages_per_s: float = 0.0
    rows_per_s: float = 0.0
    queue_per_s: float = 0.0
    """By how much the queue grew; negative: it shrank."""
    nodes: dict[str, float] = {}
    """Jobs a second, by node."""
    outputs: dict[str, OutputRate] = {}
    """By APPENDER/DATADEF."""
    hosts: tuple[HostGroup, ...] = ()
    """In the order of the states."""
    share: float | None = None
    """The share of the pages that have ended, 0 to 1; None: nobody can say, because pages are still found."""
    growing: tuple[int, ...] = ()
    """Sequences whose pages are still found one after another."""

    @property
    def rates(self) -> dict[str, float]:
        """The object `rates` of `status --json`."""
        return {
            "pages_per_s": self.pages_per_s, "rows_per_s": self.rows_per_s, "queue_per_s": self.queue_per_s,
        }  # fmt: skip


NO_JUDGEMENT = Judgement()


def mean_rate(count: float, seconds: float) -> float:
    """The mean rate over the time under a supervisor; 0 before it began."""
    return round(count / seconds, 2) if seconds > 0 else 0.0


class Alarm(Struct, frozen=True):
    """A trouble: it ends when its cause ends; meanwhile code and text may change.

    A warning of the same cause has the same code; `docs/glossary.md` lists them.
    """

    code: str
    text: str
    """It may count seconds, and so change while the cause lasts."""
    level: AlarmLevel = "warn"
    host: str | None = None
    data_def: str | None = None
    field: str | None = None
    subject: str | None = None
    """What else it is about, such as a node or an output."""
    count: int = 1
    """Of its hosts, where it is about several."""
    members: tuple[str, ...] = ()
    """The keys of the alarms that these hosts would have each; of very many, the first are stored."""
    since: float = 0.0
    """Wall-clock seconds."""
    acknowledged: bool = False

    @property
    def is_reach(self) -> bool:
        """Whether it is about how hosts answer."""
        return _TROUBLES.get(self.code) == "reach"

    def split(self, text: str) -> list["Alarm"]:
        """That of each host that is known: the first has its text, each other one its host and this text."""
        if self.count == 1:
            return [self]
        hosts = [key.rpartition(" ")[2] for key in self.members]
        alone = [replace(self, text=f"{host} {text}", host=host, count=1, members=()) for host in hosts]
        return [replace(one, text=self.text.partition("; ")[2]) for one in alone[:1]] + alone[1:]

    @property
    def key(self) -> str:
        """The same as long as the trouble lasts; hosts with the same trouble, told together, are told by its code."""
        trouble = self.code if self.count > 1 else _TROUBLES.get(self.code, self.code)
        return " ".join(filter(None, (trouble, self.data_def, self.field, self.host, self.subject)))

    def as_dict(self) -> dict[str, Any]:
        """What `status --json` prints."""
        return {name: getattr(self, name) for name in _REPORTED}


class Limits(Struct, frozen=True, kw_only=True):
    """Which runs, pages or files may stay: None sets no limit."""

    older_than: float | None = None
    """Seconds of age."""
    keep: int | None = None
    """How many of the newest stay."""
    max_bytes: int | None = None
    """How much all of them may take together."""

    @property
    def is_empty(self) -> bool:
        return self.older_than is None and self.keep is None and self.max_bytes is None
