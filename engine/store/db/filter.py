"""Filters: which jobs or events are wanted, as values, and what of that SQL can decide. Knows no grammar and no table.

A filter that asks only for states, groups, hosts and kinds is answered by the counters; one that searches texts is
asked row by row, of rows SQL has sieved.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Operator = Literal["<", "<=", ">", ">=", "="]
Condition = tuple[str, list[Any]]
"""A piece of SQL, and what its placeholders stand for."""

FILTER_STATES = ("ready", "delayed", "taken", "done", "failed", "skipped", "incomplete")
"""What jobs are counted by. As a word of a filter `ready` takes the delayed ones in."""

RETRYABLE_STATES = ("failed", "skipped", "done", "incomplete")
"""States a job may be retried from."""


class Search(Protocol):
    """A test of a row's texts that SQL cannot make."""

    def accepts(self, *texts: str) -> bool:
        """Whether a row with these texts is wanted."""
        ...


@dataclass(frozen=True, slots=True)
class GlobFilter:
    """What one column must be: one of `wanted` (empty: any), and none of `unwanted`. `*` stands for any text."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.include or self.exclude)

    def condition(self, *columns: str) -> list[Condition]:
        """SQL that is true where one of the columns is as asked."""
        found: list[Condition] = []
        if self.include:
            found.append(_glob_condition(columns, self.include))
        if self.exclude:
            sql, values = _glob_condition(columns, self.exclude)
            found.append((f"NOT {sql}", values))
        return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """`field operator value`, such as `attempts > 2`; `age` is in seconds."""

    field: Literal["age", "attempts", "crashes", "depth", "priority"]
    operator: Operator
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs are wanted. All its parts must hold; `text` is how it was written, to be shown."""

    text: str = ""
    states: GlobFilter = GlobFilter()
    groups: GlobFilter = GlobFilter()
    hosts: GlobFilter = GlobFilter()
    """Of `name:port`, or the name alone."""
    nodes: GlobFilter = GlobFilter()
    """`n2`: jobs it holds, or was the last to hold."""
    kinds: GlobFilter = GlobFilter(("page",))
    comparisons: tuple[Comparison, ...] = ()
    searches: tuple[Search, ...] = ()

    @property
    def matched_states(self) -> frozenset[str]:
        """The states it lets through, as named in STATES; `ready` is here what is due."""
        return (_expand_ready(self.states.include) or frozenset(FILTER_STATES)) - _expand_ready(self.states.exclude)

    @property
    def countable(self) -> bool:
        """Whether the counters know how many jobs it lets through."""
        return not (self.nodes or self.comparisons or self.searches)

    def accepts(self, *texts: str) -> bool:
        """Whether the searches let a job with these texts through. May raise UsageError: a pattern was too slow."""
        return all(search.accepts(*texts) for search in self.searches)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events are wanted."""

    text: str = ""
    levels: GlobFilter = GlobFilter()
    sources: GlobFilter = GlobFilter()
    kinds: GlobFilter = GlobFilter()
    ages: tuple[Comparison, ...] = ()
    searches: tuple[Search, ...] = ()

    def accepts(self, *texts: str) -> bool:
        """Whether the searches let an event with these texts through. May raise UsageError."""
        return all(search.accepts(*texts) for search in self.searches)


ALL_JOBS = JobFilter()
ALL_EVENTS = EventFilter()


def sequence_conditions(wanted: JobFilter) -> list[Condition]:
    """What a filter asks of a sequence `s` and its host `h`."""
    return [
        *wanted.kinds.condition("s.kind"),
        *wanted.groups.condition("s.grp"),
        *wanted.hosts.condition("h.key", "rtrim(rtrim(h.key, '0123456789'), ':')"),
    ]


def job_conditions(wanted: JobFilter, now: float) -> list[Condition]:
    """What a filter asks of a job `j`, its run `r` and its last node `n`. `now` is wall-clock seconds."""
    found: list[Condition] = []
    counters = wanted.matched_states
    if counters < frozenset(FILTER_STATES):
        found.append((_state_condition(counters), []))
    found += wanted.nodes.condition("coalesce('n' || n.number, '')")
    for comparison in wanted.comparisons:
        found.append(
            _comparison_condition(comparison, "coalesce(j.changed_at, r.created_at)", f"j.{comparison.field}", now)
        )
    return found


def event_conditions(wanted: EventFilter, now: float) -> list[Condition]:
    """What a filter asks of an event. `now` is wall-clock seconds."""
    return [
        *wanted.levels.condition("level"),
        *wanted.sources.condition("source"),
        *wanted.kinds.condition("kind"),
        *(_comparison_condition(comparison, "at", "", now) for comparison in wanted.ages),
    ]


def join_conditions(conditions: Sequence[Condition]) -> Condition:
    """All of them, as one that can follow a WHERE … ; begins with AND where there is any."""
    return "".join(f" AND {sql}" for sql, _ in conditions), [value for _, values in conditions for value in values]


def _expand_ready(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(words) | (frozenset(("delayed",)) if "ready" in words else frozenset())


def _state_condition(counters: frozenset[str]) -> str:
    told = []
    for name in sorted(counters):
        if name == "ready":
            told.append("(j.state = 'READY' AND j.not_before IS NULL)")
        elif name == "delayed":
            told.append("(j.state = 'READY' AND j.not_before IS NOT NULL)")
        else:
            told.append(f"j.state = '{name.upper()}'")
    return "(" + (" OR ".join(told) or "0") + ")"


def _glob_condition(columns: Sequence[str], words: Sequence[str]) -> Condition:
    globs = [word.replace("[", "[[]").replace("?", "[?]") for word in words]
    return "(" + " OR ".join(f"{c} GLOB ?" for c in columns for _ in globs) + ")", globs * len(columns)


_INVERTED_OPERATORS: dict[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def _comparison_condition(comparison: Comparison, moment: str, column: str, now: float) -> Condition:
    if comparison.field == "age":  # what is older was before
        return f"{moment} {_INVERTED_OPERATORS[comparison.operator]} ?", [now - comparison.value]
    return f"{column} {comparison.operator} ?", [comparison.value]
