"""Estimates the end of a run: when the slowest of its hosts, at its own pace, has given its pages."""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.judge.host_state import is_refusing, is_silent
from crawl_engine.model.run import Eta, RunState, Stage
from crawl_engine.store.read.situation import HostWork, Situation
from crawl_engine.store.read.snapshot import Snapshot

_SMOOTHING_SECONDS = 15.0
"""The time constant of a host's pace: a measurement of this age counts a third."""
_SETTLED_SECONDS, _SETTLED_PAGES = 5.0, 20
"""New pages within this time, or since so many pages ended, mean that more will come."""
_GROWTH_SECONDS, _GROWTH_SHARE = 60.0, 0.1
"""The queue grows if in both halves of this time it grew by this share of the pages that ended.

That is over when it did not grow in the whole of this time: pages may be found in bursts. A start finds more than ends.
"""
_MIN_GROWTH = 10
"""Pages, in each half."""
_MAX_MOMENTS = 400
"""More are thinned, but for the longest of these times."""
_MOST_FOUND = 0.9
"""As long as a page that ends leads to so many new ones, nobody can say how many pages there will be."""
_MAX_FIND_SECONDS = 60.0
"""A sequence that found a page goes on for three times as long as that took, at least 5 s and at most so long."""
_WARM_UP_SECONDS, _EARLY_MARGIN, _MARGIN = 10.0, 2.0, 1.3
"""By how much a host may yet be faster than its fastest so far, at first and later."""


_Estimate = tuple[float, str | None, str | None]
"""Seconds, what bounds them, and why."""


class _Moment(NamedTuple):
    at: float
    ended: int
    total: int
    waiting: int


class _HostPace(Struct):
    """The pace of a host while it does not rest, and how long it rested."""

    ended: int
    at: float
    active_seconds: float = 0.0
    pages_per_s: float = 0.0
    peak: float = 0.0
    """The highest of them so far."""
    rested_seconds: float = 0.0
    rests: int = 0
    is_resting: bool = False
    has_work: bool = True
    counted: int = 0

    def update(self, work: HostWork, now: float) -> None:
        passed, pages = now - self.at, work.ended - self.ended
        resting = work.rest(now) > 0
        if resting and not self.is_resting:
            self.rests += 1
        if self.is_resting or resting:
            self.rested_seconds += passed
        begins = not self.counted  # before its first pages end, nodes start and the first requests are under way
        was_idle = not (pages or self.has_work)  # nothing left, or all of it paused
        if not self.is_resting and passed > 0 and not begins and not was_idle:
            self.active_seconds += passed
            # the mean at first, later the last seconds count most
            weight = max(passed / self.active_seconds, min(1.0, passed / _SMOOTHING_SECONDS))
            self.pages_per_s += (pages / passed - self.pages_per_s) * weight
            self.peak = max(self.peak, self.pages_per_s)
        self.counted += pages
        self.ended, self.at, self.is_resting, self.has_work = work.ended, now, resting, work.left > 0

    def seconds_for(self, work: HostWork, now: float) -> float | None:
        """Seconds until its pages have ended; None without a measurement."""
        least, backoff = work.left * work.delay, work.rest(now)
        if self.pages_per_s <= 0:
            return least + backoff if least else None
        # a host that rested once may not rest again; one that rested often will
        rest = self.rested_seconds / self.counted * (self.rests - 1) / self.rests if self.counted and self.rests else 0
        return max(least, work.left / self.pages_per_s) + max(backoff, rest * work.left)

    def least_seconds(self, work: HostWork, now: float) -> float:
        """Its pages take at least as long, if they come no faster than its fastest so far."""
        margin = _EARLY_MARGIN if self.active_seconds < _WARM_UP_SECONDS else _MARGIN
        each = 1 / (self.peak * margin) if self.peak > 0 else work.delay
        return work.rest(now) + work.left * (max(each, work.delay) if self.peak * work.delay <= _MARGIN else each)


class _Finds(Struct):
    """When the pages of a sequence grew in number."""

    pages: int
    at: float
    """The last time; at first when it was seen."""
    gap: float = 0.0
    """Seconds between the last two times; 0: it has not grown."""

    def update(self, pages: int, now: float) -> bool:
        """Take the number of its pages; whether more may be found."""
        if pages > self.pages:
            self.gap, self.at = max(1.0, now - self.at), now
        self.pages = pages
        lasts = min(_MAX_FIND_SECONDS, max(_SETTLED_SECONDS, 3 * self.gap))
        return bool(self.gap) and now - self.at <= lasts


class Forecast:
    """Estimates from the situations of one run, in their order."""

    def __init__(self) -> None:
        self._paces: dict[int, _HostPace] = {}
        self._run_pace: _HostPace | None = None
        self._moments: deque[_Moment] = deque()
        self.queue_per_s = 0.0
        """By how much the queue grows; negative: it shrinks."""
        self.growth_per_s = 0.0
        """The same if new pages are found faster than pages end; 0: they are not."""
        self._seeds = True
        self._finds: dict[int, _Finds] = {}
        self.growing: tuple[int, ...] = ()
        """Sequences with pages left, of which more are found."""
        self.share: float | None = None
        """The share of the pages that have ended; None: nobody can say."""
        self.host_etas: dict[int, float] = {}
        """By id: seconds until the pages of a host have ended; only of those with pages left."""

    def estimate(self, work: Situation) -> Eta:
        """The estimate in the next situation. It leaves out paused pages, and is not exact then."""
        eta = self._estimate(work)
        return replace(eta, paused=work.paused_pages, exact=False) if work.paused_pages else eta

    def _estimate(self, work: Situation) -> Eta:
        now = work.at
        for id_, host in work.hosts.items():
            if id_ in self._paces:
                self._paces[id_].update(host, now)
            else:
                self._paces[id_] = _HostPace(host.ended, now)
        ended = sum(host.ended for host in work.hosts.values())
        left = sum(host.left for host in work.hosts.values())
        if self._run_pace is None:
            self._run_pace = _HostPace(ended, now)
        whole = HostWork(left, ended)
        self._run_pace.update(whole, now)
        was_seeding, self._seeds = self._seeds, work.state is RunState.SEEDING or not work.total
        if self._seeds or was_seeding:
            self._moments.clear()  # what was seeded was not found
        self._follow_sequences(work)
        settled = self._follow(_Moment(now, ended, work.total, work.waiting))
        settled = settled and not self.growing and work.state is not RunState.SEEDING
        self.share = self._find_share(work, settled=settled)
        self.host_etas = {}
        if work.paused or (work.paused_pages and not left):
            return Eta(None, "paused", exact=False, reason=work.paused)
        if not left:
            known = work.total > 0 and work.state is not RunState.SEEDING
            return Eta(0.0, exact=settled) if known else Eta(None, exact=False, reason="no page is known yet")
        busy = {id_: host for id_, host in work.hosts.items() if host.left}
        holds = {id_: hold for id_, host in busy.items() if (hold := _find_hold(host, work))}
        self.host_etas = {
            id_: seconds
            for id_, host in busy.items()
            if id_ not in holds and (seconds := self._paces[id_].seconds_for(host, now)) is not None
        }
        if holds:
            longest = max(holds, key=lambda id_: (busy[id_].silent, busy[id_].strikes))
            return Eta(None, busy[longest].key, exact=False, reason=holds[longest])
        if self.growth_per_s:
            return Eta(None, exact=False, reason=describe_growth(self.growth_per_s))
        if settled and not any(host.rest(now) > 0 for host in busy.values()):
            seconds, bound_by, reason = self._expect(busy, whole, now)
            together, exact = self._run_pace.seconds_for(whole, now), True
        else:
            least = {id_: self._paces[id_].least_seconds(host, now) for id_, host in busy.items()}
            seconds, bound_by, reason = _find_last(least, busy, now)
            if self.host_etas and seconds:  # by name the one that is slowest by its own estimate
                _, bound_by, reason = _find_last(self.host_etas, busy, now)
            together, exact = self._run_pace.least_seconds(whole, now), False
        if work.run_room is not None and work.run_room < left and together:
            share = together * work.run_room / left
            if share < seconds:
                seconds, bound_by, reason = share, f"--max-pages {work.max_pages}", None
        if work.max_time_left is not None and work.max_time_left < seconds:
            seconds, bound_by, reason = work.max_time_left, "--max-time", None
        if not seconds:
            return Eta(None, exact=False, reason="no page has ended yet")
        return Eta(round(max(0.1, seconds), 1), bound_by, exact, reason)

    def _follow_sequences(self, work: Situation) -> None:
        """Find the sequences whose pages are found one after another."""
        self._finds = {
            id_: self._finds.get(id_) or _Finds(pages, work.at) for id_, pages in work.open_sequences.items()
        }
        growing = [id_ for id_, pages in work.open_sequences.items() if self._finds[id_].update(pages, work.at)]
        self.growing = tuple(growing) if work.state is not RunState.SEEDING else ()

    def _find_share(self, work: Situation, *, settled: bool) -> float | None:
        """The share of the pages that have ended, with those that will be found if each leads to as many as lately."""
        if work.state is RunState.SEEDING or not work.total:
            return None
        ended, left = work.total - work.waiting, float(work.waiting)
        if not settled and left:
            first = self._moments[0]
            passed = work.total - work.waiting - (first.total - first.waiting)
            found = (work.total - first.total) / passed if passed else 1.0
            if found >= _MOST_FOUND:
                return None
            left /= 1 - found
        if work.run_room is not None:
            left = min(left, work.run_room + work.paused_pages)
        return ended / (ended + left) if left else 1.0

    def _expect(self, busy: dict[int, HostWork], whole: HostWork, now: float) -> _Estimate:
        """When the pages will have ended at the present paces; 0 seconds: unknown."""
        assert self._run_pace is not None
        seconds, bound_by, reason = _find_last(self.host_etas, busy, now)
        if len(self.host_etas) < len(busy):
            # some host has no pace yet: the nodes have not reached it
            together = self._run_pace.seconds_for(whole, now) or 0.0
            if not together or together > seconds:
                return together, "nodes", None
        return seconds, bound_by, reason

    def _follow(self, now: _Moment) -> bool:
        """Take the next counts; whether no new page has appeared for a while."""
        moments = self._moments
        moments.append(now)
        while len(moments) > 2 and now.at - moments[1].at >= _GROWTH_SECONDS and _has_passed(moments[1], now):
            moments.popleft()
        if len(moments) > _MAX_MOMENTS:  # no page ends
            recent_at = now.at - _GROWTH_SECONDS
            kept = [moment for number, moment in enumerate(moments) if not number % 2 or moment.at >= recent_at]
            self._moments = moments = deque(kept)
        self._measure_growth()
        recent = [moment for moment in moments if now.at - moment.at >= _SETTLED_SECONDS and _has_passed(moment, now)]
        return now.total == (recent[-1] if recent else moments[0]).total

    def _measure_growth(self) -> None:
        """Measure by how much the queue grows, and whether new pages are found faster than pages end."""
        last = self._moments[-1]
        older = [moment for moment in self._moments if last.at - moment.at >= _GROWTH_SECONDS]
        first = older[-1] if older else self._moments[0]
        self.queue_per_s = (last.waiting - first.waiting) / max(1.0, last.at - first.at)
        middle = next(moment for moment in self._moments if last.at - moment.at <= _GROWTH_SECONDS / 2)
        begins = all(
            end.waiting - begin.waiting >= max(_MIN_GROWTH, _GROWTH_SHARE * (end.ended - begin.ended))
            for begin, end in ((first, middle), (middle, last))
        )
        grows = bool(older) and self.queue_per_s > 0 and (begins or self.growth_per_s > 0)
        self.growth_per_s = self.queue_per_s if grows else 0.0


class PagesEnded(Struct, frozen=True):
    """How far a run is. Field names and their order are the keys of `progress` in `status --json`."""

    ended: int
    total: int
    """All pages so far."""
    exact: bool
    """Whether no more pages are expected."""
    share: float | None
    """Of the pages that have ended, 0 to 1; None: nobody can say, since pages are still found one after another."""


def progress_of(view: Snapshot, *, is_live: bool) -> PagesEnded:
    """How far a run is. `is_live`: whether its supervisor is at work."""
    jobs, run = view.jobs, view.run
    ended, total = jobs["done"] + jobs["failed"] + jobs["skipped"], sum(jobs.values())
    if run is None or run.state is RunState.DONE:
        return PagesEnded(ended, total, run is not None, ended / total if total else None)
    if is_live and run.stage is Stage.RUNNING:
        return PagesEnded(ended, total, run.eta.exact, run.judgement.share)
    return PagesEnded(ended, total, False, ended / total if total else None)


def _has_passed(then: _Moment, now: _Moment) -> bool:
    return now.ended - then.ended >= _SETTLED_PAGES


def describe_growth(per_second: float) -> str:
    return f"the queue grows by {per_second:,.{0 if per_second >= 9.95 else 1}f} pages/s"


def _find_last(seconds: Mapping[int, float], busy: Mapping[int, HostWork], now: float) -> _Estimate:
    """The longest of the estimates by host."""
    last = max(seconds, key=lambda id_: seconds[id_], default=None)
    return (0.0, None, None) if last is None else (seconds[last], busy[last].key, _describe_limit(busy[last], now))


def _find_hold(host: HostWork, situation: Situation) -> str | None:
    """Why nobody can say when a host will serve its pages: it is silent, refuses, or rests without a known end."""
    if is_silent(host, situation):
        return f"{host.key} silent {host.silent:.0f} s"
    if is_refusing(host):
        return f"{host.key} refuses the crawler: {host.rest_reason}"
    if host.rest_reason and host.strikes > 1:
        return f"{host.key} rests again and again after {host.rest_reason}"
    return None


def _describe_limit(host: HostWork, now: float) -> str | None:
    if (rest := host.rest(now)) > 0:
        return f"backoff {rest:.0f} s"
    return f"delay {host.delay:g} s" if host.delay else None
