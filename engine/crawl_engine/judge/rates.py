"""What rate: counters over the same last seconds, and the speed that viewers show of a run."""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from crawl_engine.model.run import mean_rate
from crawl_engine.store.read.snapshot import Snapshot

WINDOW_SECONDS = 10.0
"""The rates of a run, its nodes, hosts and outputs are those of so many last seconds."""


class RateMeter:
    """Measures counters, all at the same moments: the rates of the nodes add up to that of the run."""

    def __init__(self) -> None:
        self._moments: deque[tuple[float, Mapping[str, float]]] = deque()

    def add(self, at: float, counts: Mapping[str, float]) -> None:
        """Take the counters of a moment, in seconds."""
        moments = self._moments
        moments.append((at, counts))
        while len(moments) > 2 and at - moments[1][0] >= WINDOW_SECONDS:
            moments.popleft()

    def rate(self, name: str) -> float:
        """The rate of a counter. One that came later counts from its first value on."""
        at, counts = self._moments[-1]
        seconds = at - self._moments[0][0]
        first = next(moment[name] for _, moment in self._moments if name in moment)
        return round(max(0.0, counts[name] - first) / seconds, 2) if seconds > 0 else 0.0


class RunSpeed(NamedTuple):
    """Pages and rows a second: those of the last seconds, or of a run without a supervisor its means."""

    pages_per_s: float
    rows_per_s: float
    is_mean: bool


def speed_of(view: Snapshot, *, is_live: bool) -> RunSpeed:
    """How fast a run is, or was. `is_live`: whether its supervisor is at work."""
    run = view.run
    if run is None:
        return RunSpeed(0.0, 0.0, is_mean=False)
    if is_live:
        return RunSpeed(run.judgement.pages_per_s, run.judgement.rows_per_s, is_mean=False)
    return RunSpeed(mean_rate(view.jobs["done"], run.seconds), mean_rate(view.row_count, run.seconds), is_mean=True)
