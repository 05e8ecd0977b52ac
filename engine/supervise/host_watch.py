"""Follows how fast the hosts of a run answer: p50 and p95 of the last minute, and p50 of each interval of it."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.model.latency import difference, quantile
from engine.runtime.clock import boottime
from engine.store.db.connector import Database
from engine.store.tables import host_speeds
from engine.store.tables.host_speeds import HostSpeed

_INTERVAL_SECONDS = 5.0
_INTERVALS = 12
"""A minute together."""

_FLUSH_LATENESS = 4.0
"""Seconds by which a flush of a node may be committed after its moment."""

_Histogram = dict[int, int]


@dataclass(slots=True)
class _HostLatency:
    """The histograms of a host: at the ends of the last intervals, and the newest one."""

    ends: deque[_Histogram]
    newest: _Histogram
    recent: deque[float | None] = field(default_factory=lambda: deque(maxlen=_INTERVALS))

    def speed(self, host: int) -> HostSpeed:
        """Of the last minute."""
        last_minute = difference(self.newest, self.ends[0])
        recent = [*self.recent, quantile(difference(self.newest, self.ends[-1]), 0.5)]
        return HostSpeed(host, quantile(last_minute, 0.5), quantile(last_minute, 0.95), recent[-_INTERVALS:])

    def end_interval(self) -> None:
        """Begin the next interval."""
        self.recent.append(quantile(difference(self.newest, self.ends[-1]), 0.5))
        self.ends.append(self.newest)

    @property
    def is_silent(self) -> bool:
        """Whether nothing was answered for a minute."""
        return len(self.recent) == _INTERVALS and not any(self.recent)


class HostWatch:
    """Of one run under one supervisor. Its cost grows with the hosts that answered in the last minute."""

    def __init__(self, db: Database, run: int) -> None:
        self._db = db
        self._run = run
        self._hosts: dict[int, _HostLatency] = {}
        for host, histogram in host_speeds.list_measured(db, run, 0.0).items():
            self._add(host, histogram, before=histogram)
        self._read_at = self._interval_at = boottime()
        self._since_sample: _Histogram = {}
        self._silent: list[int] = []

    def measure(self) -> list[HostSpeed]:
        """The hosts that answered since the last call; every five seconds all that answered in the last minute."""
        now = boottime()
        measured = host_speeds.list_measured(self._db, self._run, self._read_at - _FLUSH_LATENESS)
        self._read_at = now
        for host, histogram in measured.items():
            of_host = self._hosts.get(host) or self._add(host, {}, before={})
            for bucket, count in difference(histogram, of_host.newest).items():
                self._since_sample[bucket] = self._since_sample.get(bucket, 0) + count
            of_host.newest = histogram
        if now - self._interval_at < _INTERVAL_SECONDS:
            return [self._hosts[host].speed(host) for host in measured]
        self._interval_at = now
        for of_host in self._hosts.values():
            of_host.end_interval()
        self._silent += [host for host, of_host in self._hosts.items() if of_host.is_silent]
        for host in self._silent:
            self._hosts.pop(host, None)
        return [of_host.speed(host) for host, of_host in self._hosts.items()]

    def record(self, speeds: Sequence[HostSpeed]) -> None:
        """Write speeds, in the open transaction. The last ones of a host that fell silent stay."""
        host_speeds.set_speeds(self._db, speeds)
        if self._silent:
            host_speeds.forget_latencies(self._db, self._silent)

    def confirm(self) -> None:
        """That transaction is committed."""
        self._silent = []

    def take_latencies(self) -> tuple[float | None, float | None]:
        """p50 and p95 of the run's answers since the last call, in seconds."""
        histogram, self._since_sample = self._since_sample, {}
        return quantile(histogram, 0.5), quantile(histogram, 0.95)

    def _add(self, host: int, histogram: _Histogram, *, before: _Histogram) -> _HostLatency:
        of_host = _HostLatency(deque([before], maxlen=_INTERVALS + 1), histogram)
        self._hosts[host] = of_host
        return of_host
