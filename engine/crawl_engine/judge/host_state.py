"""Is this host well: judges hosts by their last answers, from the situations of a run."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from heapq import nlargest
from typing import NamedTuple

from msgspec import Struct, field

from crawl_engine.errors import plural
from crawl_engine.model.host import TROUBLE, HostState
from crawl_engine.model.retry_policy import OVERLOAD_STATUSES
from crawl_engine.model.run import HostGroup
from crawl_engine.store.read.data_warnings import FAILING_SHARE, MIN_FAILED
from crawl_engine.store.read.situation import HostWork, Situation

_OVERLOADS = tuple(f"HTTP {status}" for status in OVERLOAD_STATUSES)
WINDOW_ANSWERS, WINDOW_SECONDS = 50, 30.0
"""A host is judged by so many last answers, or those of so many last seconds if they are fewer.

Older answers count as long as there are fewer than MIN_FAILED."""
_SHAKY_SHARE = 0.05
_REFUSED_SHARE = 0.5
_ANSWERED_SECONDS = 60.0
_MAX_NAMES = 5
_NO_ANSWER = 0
_FIRST_BAD_STATUS = 400


class LastAnswers(NamedTuple):
    """The last answers of a host. Of the bad ones some refused the crawler, of these some with 429 or 503.

    `worst`: the most frequent bad answer.
    """

    total: int = 0
    bad: int = 0
    refused: int = 0
    throttled: int = 0
    worst: str = ""

    def has_share(self, count: int, share: float) -> bool:
        """Whether so many of them are a share that says something of the host."""
        return 0 < count >= share * self.total and (count >= MIN_FAILED or count == self.total)


NO_ANSWERS = LastAnswers()


class HostView(NamedTuple):
    """A host as it is judged. `text` says what is wrong with it; empty: nothing."""

    state: HostState
    work: HostWork
    last: LastAnswers
    text: str


class _AnswerCounts(NamedTuple):
    """How a host had answered at a moment."""

    at: float
    total: int
    answers: Mapping[int, int]
    bad: int
    refused: int


class _Record(Struct):
    """What is known of a host: its answers at several moments, the oldest first."""

    moments: deque[_AnswerCounts] = field(default_factory=deque)
    answered_at: float | None = None
    """When it answered last, as far as that was seen."""
    last: LastAnswers = NO_ANSWERS
    fails: bool = False

    def take(self, work: HostWork, now: float) -> None:
        """Add the answers of now."""
        moments, total = self.moments, sum(work.answers.values())
        if not moments:
            moments.append(_AnswerCounts(now, 0, {}, 0, 0))  # what it answered earlier counts until newer answers come
        before = moments[-1]
        if total != before.total or work.bad != before.bad:
            moments.append(_AnswerCounts(now, total, work.answers, work.bad, work.refused))
            if before.at < now and total - before.total > work.answers.get(_NO_ANSWER, 0) - before.answers.get(
                _NO_ANSWER, 0
            ):
                self.answered_at = now
        elif len(moments) <= 2:
            return
        while len(moments) > 2 and self._is_enough(moments[1], moments[-1], now):
            moments.popleft()
        self.last = _answers_between(moments[0], moments[-1])
        limit = FAILING_SHARE / 2 if self.fails else FAILING_SHARE  # it has recovered below half of the share
        self.fails = self.last.has_share(self.last.bad, limit)

    @staticmethod
    def _is_enough(first: _AnswerCounts, last: _AnswerCounts, now: float) -> bool:
        """Whether the answers since a moment are a window of their own."""
        count = last.total - first.total
        return count >= WINDOW_ANSWERS or (now - first.at >= WINDOW_SECONDS and count >= MIN_FAILED)


def _answers_between(first: _AnswerCounts, last: _AnswerCounts) -> LastAnswers:
    bad, total = last.bad - first.bad, last.total - first.total
    if bad <= 0:
        return LastAnswers(total)
    counts = Counter(last.answers)
    counts.subtract(first.answers)
    refused = max(0, last.refused - first.refused)
    failures = {status: count for status, count in counts.items() if status >= _FIRST_BAD_STATUS or not status}
    worst = max(failures, key=lambda status: failures[status], default=None)
    name = "" if worst is None else f"HTTP {worst}" if worst else "no answer"
    throttled = min(refused, sum(counts[status] for status in OVERLOAD_STATUSES))
    return LastAnswers(max(total, bad), bad, refused, throttled, name)


class HostJudge:
    """Judges the hosts of one run, from its situations in their order."""

    def __init__(self) -> None:
        self._records: dict[int, _Record] = {}
        self.views: dict[int, HostView] = {}
        """All hosts with pages, by id, as they were judged last."""

    @property
    def settled(self) -> dict[int, int]:
        """The hosts without a page left, by id, with their ended pages: they are as they were judged."""
        return {
            id_: view.work.ended
            for id_, view in self.views.items()
            if not view.work.waiting and id_ not in self._records
        }

    def update(self, situation: Situation) -> dict[int, HostView]:
        """Judge a situation; returns the hosts that it read."""
        judged: dict[int, HostView] = {}
        for id_, work in situation.hosts.items():
            if work.key:
                judged[id_] = self._judge(id_, work, situation)
        self.views |= judged
        return judged

    def groups(self) -> tuple[HostGroup, ...]:
        """All hosts by state."""
        by_state: dict[HostState, list[HostWork]] = {}
        for view in self.views.values():
            by_state.setdefault(view.state, []).append(view.work)
        return tuple(
            HostGroup(state, len(works), tuple(w.key for w in nlargest(_MAX_NAMES, works, key=lambda w: w.waiting)))
            for state in HostState
            if (works := by_state.get(state))
        )

    def _judge(self, id_: int, work: HostWork, situation: Situation) -> HostView:
        record = self._records.setdefault(id_, _Record())
        record.take(work, situation.at)
        last = record.last
        state = _state_of(work, situation, record, last)
        if not work.waiting and (record.answered_at is None or situation.at - record.answered_at > WINDOW_SECONDS):
            del self._records[id_]  # nothing will change, unless it gets new pages
        text = _describe(state, work, last, situation) if state in TROUBLE else ""
        return HostView(state, work, last, text)


def _state_of(work: HostWork, situation: Situation, record: _Record, last: LastAnswers) -> HostState:
    is_open = bool(work.waiting or work.left)
    if work.paused or 0 < work.waiting <= work.paused_pages:
        return HostState.PAUSED
    if work.left and is_silent(work, situation):
        return HostState.SILENT
    if (work.left and is_refusing(work)) or last.has_share(last.refused - last.throttled, _REFUSED_SHARE):
        return HostState.REFUSED
    if work.left and (work.rest(situation.at) > 0 or (record.fails and work.rest_reason is not None)):
        return HostState.RESTING
    if record.fails:
        return HostState.FAILING
    if not work.answers:
        return HostState.UNASKED
    if not is_open:
        return HostState.FINISHED
    if record.answered_at is None or situation.at - record.answered_at > max(_ANSWERED_SECONDS, 2 * work.delay):
        return HostState.WAITING
    return HostState.SHAKY if last.bad >= max(1.0, _SHAKY_SHARE * last.total) else HostState.OK


def _describe(state: HostState, work: HostWork, last: LastAnswers, situation: Situation) -> str:
    """What is wrong with a host."""
    rest = work.rest(situation.at)
    match state:
        case HostState.SILENT:
            return f"{work.key} is silent: no answer for {work.silent:.0f} s (deadline {situation.deadline:g} s)"
        case HostState.REFUSED if work.left and is_refusing(work):
            again = f"; asked again in {rest:.0f} s" if rest > 0 else ""
            return f"{work.key} refuses the crawler: {work.rest_reason}{again}"
        case HostState.REFUSED:
            return describe_refusals(work.key, last)
        case HostState.RESTING:
            after = f" after {work.rest_reason}" if work.rest_reason else ""
            return f"{work.key} rests {rest:.0f} s{after}" if rest > 0 else f"{work.key} is asked again{after}"
        case HostState.FAILING:
            return f"{work.key} fails: {last.bad:,} of the last {plural(last.total, 'answer')} bad ({last.worst})"
    return ""


def describe_refusals(key: str, last: LastAnswers) -> str:
    """How often a host refused the crawler."""
    return f"{key} refused {last.refused:,} of the last {plural(last.total, 'request')} ({last.worst})"


def list_troubled(views: Mapping[int, HostView], state: HostState) -> Iterator[HostView]:
    """The hosts with one trouble, those with most pages left first."""
    found = [view for view in views.values() if view.state is state]
    yield from sorted(found, key=lambda view: (-view.work.silent, -(view.work.backoff_until or 0.0), -view.work.left))


def is_silent(host: HostWork, situation: Situation) -> bool:
    """Whether it has not answered for half the deadline, with requests in flight."""
    return 0 < situation.deadline <= 2 * host.silent


def is_refusing(host: HostWork) -> bool:
    """Whether its last rest began with a refusal of the crawler."""
    return host.rest_reason is not None and host.rest_reason not in _OVERLOADS
