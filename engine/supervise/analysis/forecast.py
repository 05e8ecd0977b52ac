"""Estimates the end of a run: when the slowest of its hosts, at its own pace, has given its pages."""

from collections import deque

from msgspec import Struct

from engine.model.run import Eta, RunState
from engine.store.read.situation import HostWork, Situation

_SMOOTHING_SECONDS = 15.0
"""The time constant of a host's pace: a measurement of this age counts a third."""
_GROWTH_SECONDS, _GROWTH_PAGES = 5.0, 20
"""New pages within this time, or since so many pages ended, mean that more will come."""


class _HostPace(Struct):
    """The pace of a host while it does not rest, and how long it rested."""

    ended: int
    at: float
    active_seconds: float = 0.0
    pages_per_s: float = 0.0
    rested_seconds: float = 0.0
    rests: int = 0
    is_resting: bool = False
    counted: int = 0

    def update(self, work: HostWork, now: float) -> None:
        passed, pages = now - self.at, work.ended - self.ended
        resting = work.backoff_until is not None and work.backoff_until > now
        if resting and not self.is_resting:
            self.rests += 1
        if self.is_resting or resting:
            self.rested_seconds += passed
        begins = not self.counted  # before its first pages end, nodes start and the first requests are under way
        if not self.is_resting and passed > 0 and not begins:
            self.active_seconds += passed
            # the mean at first, later the last seconds count most
            weight = max(passed / self.active_seconds, min(1.0, passed / _SMOOTHING_SECONDS))
            self.pages_per_s += (pages / passed - self.pages_per_s) * weight
        self.counted += pages
        self.ended, self.at, self.is_resting = work.ended, now, resting

    def seconds_for(self, work: HostWork, now: float) -> float | None:
        """Seconds until its pages have ended; None without a measurement."""
        least = work.left * work.delay
        backoff = max(0.0, (work.backoff_until or 0.0) - now)
        if self.pages_per_s <= 0:
            return least + backoff if least else None
        # a host that rested once may not rest again; one that rested often will
        rest = self.rested_seconds / self.counted * (self.rests - 1) / self.rests if self.counted and self.rests else 0
        return max(least, work.left / self.pages_per_s) + max(backoff, rest * work.left)


class Forecast:
    """Estimates from the situations of one run, in their order."""

    def __init__(self) -> None:
        self._paces: dict[int, _HostPace] = {}
        self._run_pace: _HostPace | None = None
        self._totals: deque[tuple[float, int, int]] = deque()
        self.host_etas: dict[int, float] = {}
        """By id: seconds until the pages of a host have ended; only of those with pages left."""

    def estimate(self, work: Situation) -> Eta:
        """The estimate in the next situation."""
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
        self._run_pace.update(HostWork(left, ended), now)
        exact = not self._is_growing(now, ended, work.total) and work.state is not RunState.SEEDING
        self.host_etas = {}
        if work.paused or (work.paused_pages and not left):
            return Eta(None, "paused", exact=False, reason=work.paused)
        if not left:
            return Eta(0.0, exact=exact)
        by_host = {
            id_: seconds
            for id_, host in work.hosts.items()
            if host.left and (seconds := self._paces[id_].seconds_for(host, now)) is not None
        }
        self.host_etas = by_host
        estimates = [(seconds, work.hosts[id_]) for id_, seconds in by_host.items()]
        seconds, last = max(estimates, key=lambda estimate: estimate[0], default=(0.0, None))
        bound_by, reason = (last.key, _hold_of(last, now)) if last is not None else (None, None)
        together = self._run_pace.seconds_for(HostWork(left, ended), now)
        if len(estimates) < sum(1 for host in work.hosts.values() if host.left):
            # some host has no pace yet: the nodes have not reached it
            if together is None:
                return Eta(None, exact=False)
            if together > seconds:
                seconds, bound_by, reason = together, "nodes", None
        if work.run_room is not None and work.run_room < left and together is not None:
            share = together * work.run_room / left
            if share < seconds:
                seconds, bound_by, reason = share, f"--max-pages {work.max_pages}", None
        if work.max_time_left is not None and work.max_time_left < seconds:
            seconds, bound_by, reason = work.max_time_left, "--max-time", None
        return Eta(round(max(0.1, seconds), 1), bound_by, exact, reason)

    def _is_growing(self, now: float, ended: int, total: int) -> bool:
        self._totals.append((now, ended, total))
        while len(self._totals) > 1 and self._is_past(self._totals[1], now, ended):
            self._totals.popleft()
        return total > self._totals[0][2]

    @staticmethod
    def _is_past(sample: tuple[float, int, int], now: float, ended: int) -> bool:
        return now - sample[0] >= _GROWTH_SECONDS and ended - sample[1] >= _GROWTH_PAGES


def _hold_of(host: HostWork, now: float) -> str | None:
    backoff = (host.backoff_until or 0.0) - now
    if backoff > 0:
        return f"backoff {backoff:.0f} s"
    return f"delay {host.delay:g} s" if host.delay else None
