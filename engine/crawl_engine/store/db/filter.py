"""Filters of jobs and events, and their SQL conditions.

The counters answer a filter on states, groups, hosts and kinds alone. A text search tests the rows that SQL selects;
of a search for plain text SQL selects only those that can match.
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from crawl_engine.model.step import OUTCOMES

Operator = Literal["<", "<=", ">", ">=", "="]
Condition = tuple[str, list[Any]]
"""A piece of SQL and the values of its placeholders."""

FILTER_STATES = ("ready", "delayed", "taken", "done", "failed", "skipped", "incomplete")
"""States that have a counter. In a filter, `ready` includes the delayed jobs."""

RETRYABLE_STATES = ("failed", "skipped", "done", "incomplete")
"""States from which a job may be retried."""


class Search(Protocol):
    """A test of a row's texts that SQL cannot run."""

    @property
    def like(self) -> str | None:
        r"""A pattern for LIKE, with `\` as its escape, that one text of each accepted row matches; None: unknown."""
        ...

    def accepts(self, *texts: str) -> bool:
        """Whether a row with these texts matches."""
        ...


class GlobFilter(Struct, frozen=True):
    r"""The value of a column must match one of `include` (empty: any) and none of `exclude`.

    `*` matches any text, `\*` a star.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.include or self.exclude)

    def condition(self, *columns: str) -> list[Condition]:
        """SQL that is true if one of the columns matches."""
        conditions: list[Condition] = []
        if self.include:
            conditions.append(_glob_condition(columns, self.include))
        if self.exclude:
            sql, values = _glob_condition(columns, self.exclude)
            conditions.append((f"NOT {sql}", values))
        return conditions


class Comparison(Struct, frozen=True):
    """`field operator value`, such as `attempts > 2`; `age` is in seconds."""

    field: Literal["age", "attempts", "crashes", "depth", "priority"]
    operator: Operator
    value: float


class JobFilter(Struct, frozen=True, kw_only=True):
    """Selects jobs that match all its parts. `text`: the filter as the user wrote it, for display."""

    text: str = ""
    states: GlobFilter = GlobFilter()
    groups: GlobFilter = GlobFilter()
    hosts: GlobFilter = GlobFilter()
    """Matched against `name:port` and against the name alone."""
    nodes: GlobFilter = GlobFilter()
    """`n2`: the node that holds the job or held it last."""
    kinds: GlobFilter = GlobFilter(("page",))
    reasons: GlobFilter = GlobFilter()
    """Why a job failed, was skipped, or is tried again."""
    outcomes: GlobFilter = GlobFilter()
    """What plugin steps reported of its page."""
    comparisons: tuple[Comparison, ...] = ()
    searches: tuple[Search, ...] = ()

    @property
    def matched_states(self) -> frozenset[str]:
        """The states it matches, as named in FILTER_STATES; `ready` here means due jobs only."""
        return (_expand_ready(self.states.include) or frozenset(FILTER_STATES)) - _expand_ready(self.states.exclude)

    @property
    def countable(self) -> bool:
        """Whether the counters alone give the number of matching jobs."""
        return not (self.nodes or self.reasons or self.outcomes or self.comparisons or self.searches)

    def accepts(self, *texts: str) -> bool:
        """Whether a job with these texts matches the searches. May raise UsageError: a pattern was too slow."""
        return all(search.accepts(*texts) for search in self.searches)


class EventFilter(Struct, frozen=True, kw_only=True):
    """Selects events that match all its parts."""

    text: str = ""
    levels: GlobFilter = GlobFilter()
    sources: GlobFilter = GlobFilter()
    kinds: GlobFilter = GlobFilter()
    ages: tuple[Comparison, ...] = ()
    searches: tuple[Search, ...] = ()

    def accepts(self, *texts: str) -> bool:
        """Whether an event with these texts matches the searches. May raise UsageError: a pattern was too slow."""
        return all(search.accepts(*texts) for search in self.searches)


class HostFilter(Struct, frozen=True, kw_only=True):
    """Selects hosts that match all its parts."""

    text: str = ""
    hosts: GlobFilter = GlobFilter()
    """Matched against `name:port` and against the name alone."""
    states: GlobFilter = GlobFilter()
    searches: tuple[Search, ...] = ()

    def accepts(self, host: str) -> bool:
        """Whether its name matches the searches. May raise UsageError: a pattern was too slow."""
        return all(search.accepts(host) for search in self.searches)


ALL_HOSTS = HostFilter()
ALL_JOBS = JobFilter()
ALL_EVENTS = EventFilter()


def sequence_conditions(job_filter: JobFilter) -> list[Condition]:
    """The part of a filter that applies to a sequence `s` and its host `h`."""
    return [
        *job_filter.kinds.condition("s.kind"),
        *job_filter.groups.condition("s.grp"),
        *_names_condition(job_filter.hosts),
    ]


def host_conditions(host_filter: HostFilter, state: str) -> list[Condition]:
    """The part of a filter that SQL selects of a host `h`. `state`: SQL of the state by which it is shown."""
    return [*_names_condition(host_filter.hosts), *host_filter.states.condition(state)]


def _names_condition(names: GlobFilter) -> list[Condition]:
    return names.condition("h.key", "rtrim(rtrim(h.key, '0123456789'), ':')")


def job_conditions(job_filter: JobFilter, now: float) -> list[Condition]:
    """The part of a filter that applies to a job `j`, its run `r` and its last node `n`. `now`: wall-clock seconds."""
    conditions: list[Condition] = []
    states = job_filter.matched_states
    if states < frozenset(FILTER_STATES):
        conditions.append((_state_condition(states), []))
    conditions += job_filter.nodes.condition("coalesce('n' || n.number, '')")
    conditions += job_filter.reasons.condition("coalesce(j.reason, '')")
    if job_filter.outcomes.include:
        conditions.append((_outcome_condition(job_filter.outcomes.include), []))
    if job_filter.outcomes.exclude:
        conditions.append((f"NOT {_outcome_condition(job_filter.outcomes.exclude)}", []))
    for comparison in job_filter.comparisons:
        conditions.append(
            _comparison_condition(comparison, "coalesce(j.changed_at, r.created_at)", f"j.{comparison.field}", now)
        )
    conditions += [
        (r"(j.url LIKE ? ESCAPE '\' OR j.target LIKE ? ESCAPE '\' OR j.reason LIKE ? ESCAPE '\')", [search.like] * 3)
        for search in job_filter.searches
        if search.like is not None
    ]
    return conditions


def event_conditions(event_filter: EventFilter, now: float) -> list[Condition]:
    """The SQL of an event filter. `now`: wall-clock seconds."""
    return [
        *event_filter.levels.condition("level"),
        *event_filter.sources.condition("source"),
        *event_filter.kinds.condition("kind"),
        *(_comparison_condition(comparison, "at", "", now) for comparison in event_filter.ages),
    ]


def join_conditions(conditions: Sequence[Condition]) -> Condition:
    """One condition to append to a WHERE clause; starts with AND unless the list is empty."""
    return "".join(f" AND {sql}" for sql, _ in conditions), [value for _, values in conditions for value in values]


def _expand_ready(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(words) | (frozenset(("delayed",)) if "ready" in words else frozenset())


def _state_condition(states: frozenset[str]) -> str:
    terms = []
    for name in sorted(states):
        if name == "ready":
            terms.append("(j.state = 'READY' AND j.not_before IS NULL)")
        elif name == "delayed":
            terms.append("(j.state = 'READY' AND j.not_before IS NOT NULL)")
        else:
            terms.append(f"j.state = '{name.upper()}'")
    return "(" + (" OR ".join(terms) or "1 = 0") + ")"


def _outcome_condition(words: Sequence[str]) -> str:
    """SQL that is true if the job `j` has a result with one of these outcomes."""
    outcomes = ", ".join(f"'{name}'" for name in OUTCOMES if name in words)
    return (
        f"(EXISTS (SELECT 1 FROM results o INDEXED BY results_job WHERE o.job = j.id AND o.outcome IN ({outcomes}))"
        f" OR EXISTS (SELECT 1 FROM unlisted_results o WHERE o.job = j.id AND o.outcome IN ({outcomes})))"
    )


def _glob_condition(columns: Sequence[str], words: Sequence[str]) -> Condition:
    globs = [word.replace("[", "[[]").replace("?", "[?]").replace("\\*", "[*]") for word in words]
    return "(" + " OR ".join(f"{c} GLOB ?" for c in columns for _ in globs) + ")", globs * len(columns)


_INVERTED_OPERATORS: dict[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def _comparison_condition(comparison: Comparison, moment: str, column: str, now: float) -> Condition:
    if comparison.field == "age":  # a greater age is an earlier moment
        return f"{moment} {_INVERTED_OPERATORS[comparison.operator]} ?", [now - comparison.value]
    return f"{column} {comparison.operator} ?", [comparison.value]
