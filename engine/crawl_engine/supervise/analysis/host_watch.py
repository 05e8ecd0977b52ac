"""Follows how hosts answer: p50 and p95 of the last minute, p50 of each interval, and their silence."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, field

from crawl_engine.model.host import difference, quantile
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.tables.host import host_speeds
from crawl_engine.store.tables.host.host_speeds import HostSpeed
from crawl_engine.supervise.run_context import RunContext

_INTERVAL_SECONDS = 5.0
_INTERVALS = 12
"""A minute together."""

_PATIENCE = 1.5
"""A host is silent when it takes this times as long as its slowest answer so far."""
_GIVEN_UP_SHARE = 0.9
"""A request that waited for this share of the deadline was hardly answered."""

_FLUSH_LATENESS = 4.0
"""Seconds between a node's flush and its commit."""

_Histogram = dict[int, int]


class _HostLatency(Struct):
    """The histograms of a host: at the ends of the last intervals, and the newest one."""

    ends: deque[_Histogram]
    newest: _Histogram
    recent: deque[float | None] = field(default_factory=lambda: deque(maxlen=_INTERVALS))

    def speed(self, host: int) -> HostSpeed | None:
        """The speed in the last minute; None without answers: the recorded one stays."""
        last_minute = difference(self.newest, self.ends[0])
        if not last_minute:
            return None
        running = quantile(difference(self.newest, self.ends[-1]), 0.5)
        recent = [*self.recent, running] if running is not None else list(self.recent)
        return HostSpeed(host, quantile(last_minute, 0.5), quantile(last_minute, 0.95), recent[-_INTERVALS:])

    def end_interval(self) -> None:
        self.recent.append(quantile(difference(self.newest, self.ends[-1]), 0.5))
        self.ends.append(self.newest)

    @property
    def is_silent(self) -> bool:
        return len(self.recent) == _INTERVALS and not any(self.recent)


class _Silence(Struct):
    """A host that keeps a request waiting."""

    since: float
    """When it answered last, or was asked first since then."""
    longest: float = 0.0
    """Seconds that a request has waited since then."""


class SilenceWatch(Struct):
    """Follows since when hosts are silent. All times are boot-time seconds."""

    deadline: float
    _limits: dict[int, float] = {}
    """By host that answered late: the seconds after which it is silent."""
    _silences: dict[int, _Silence] = {}

    def update(self, waiting: Mapping[int, float], answered: Collection[int], now: float) -> None:
        """`waiting`: by host, when its oldest request in flight was sent. `answered`: hosts that answered just now."""
        for host, sent_at in waiting.items():
            silence = self._silences.setdefault(host, _Silence(sent_at))
            silence.longest = max(silence.longest, now - sent_at)
        for host in answered:
            ended = self._silences.get(host)
            if ended is None:
                continue
            if self._is_long(ended) and ended.longest < self.deadline * _GIVEN_UP_SHARE:
                took = min(ended.longest, now - ended.since)
                self._limits[host] = max(self._limits.get(host, 0.0), took * _PATIENCE)
            self._silences[host] = _Silence(now)
        # between two attempts of a job, a host that let the first one wait is still silent
        over = [host for host, silence in self._silences.items() if host not in waiting and not self._is_long(silence)]
        for host in over:
            del self._silences[host]

    def seconds(self, host: int, now: float) -> float:
        """How long the host is silent; 0 until a request has waited for half the deadline, or as long as it may."""
        silence = self._silences.get(host)
        if silence is None or not self._is_long(silence) or now - silence.since < self._limits.get(host, 0.0):
            return 0.0
        return now - silence.since

    def _is_long(self, silence: _Silence) -> bool:
        return silence.longest >= self.deadline / 2


class HostWatch:
    """Measures the hosts of one run. Its cost grows with the hosts that answered in the last minute."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self.silences = SilenceWatch(run.settings.deadline)
        self._hosts: dict[int, _HostLatency] = {}
        self._read_at = self._interval_at = store_time()
        for host, histogram in host_speeds.list_measured(run.db, run.seq, 0.0, self._read_at).items():
            self._add(host, histogram, before=histogram)
        self._since_sample: _Histogram = {}
        self._silent: set[int] = set()

    def measure(self, waiting: Mapping[int, float]) -> list[HostSpeed]:
        """The hosts that answered since the last call; every five seconds all that answered in the last minute.

        `waiting`: by host, when its oldest request in flight was sent.
        """
        now = store_time()
        measured = host_speeds.list_measured(self._run.db, self._run.seq, self._read_at - _FLUSH_LATENESS, now)
        self._read_at = now
        changed = [host for host, histogram in measured.items() if self._take(host, histogram)]
        self.silences.update(waiting, changed, now)
        if now - self._interval_at >= _INTERVAL_SECONDS:
            self._interval_at = now
            for of_host in self._hosts.values():
                of_host.end_interval()
            self._silent |= {host for host, of_host in self._hosts.items() if of_host.is_silent}
            changed = list(self._hosts)
        speeds = [self._hosts[host].speed(host) for host in changed]
        return [speed for speed in speeds if speed is not None]

    def record(self, speeds: Sequence[HostSpeed]) -> None:
        """Write speeds in the open transaction; forget the histograms of silent hosts."""
        host_speeds.set_speeds(self._run.db, speeds)
        if self._silent:
            host_speeds.forget_latencies(self._run.db, self._silent)

    def confirm(self, *, sampled: bool) -> None:
        """Call it after the commit of `record`. `sampled`: it held the latencies of the run."""
        for host in self._silent:
            del self._hosts[host]
        self._silent = set()
        if sampled:
            self._since_sample = {}

    def latencies(self) -> tuple[float | None, float | None]:
        """p50 and p95 of the run's answers since the last sample, in seconds."""
        return quantile(self._since_sample, 0.5), quantile(self._since_sample, 0.95)

    def _take(self, host: int, histogram: _Histogram) -> bool:
        """Take the histogram of a host. True: it answered since the last one."""
        of_host = self._hosts.get(host) or self._add(host, {}, before={})
        added = difference(histogram, of_host.newest)
        for bucket, count in added.items():
            self._since_sample[bucket] = self._since_sample.get(bucket, 0) + count
        of_host.newest = histogram
        if added:
            self._silent.discard(host)
        return bool(added)

    def _add(self, host: int, histogram: _Histogram, *, before: _Histogram) -> _HostLatency:
        of_host = _HostLatency(deque([before], maxlen=_INTERVALS + 1), histogram)
        self._hosts[host] = of_host
        return of_host
