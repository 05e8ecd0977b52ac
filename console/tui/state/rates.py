"""What a console remembers between looks: how fast nodes, outputs and the run went. Knows nothing of widgets."""

from collections import deque
from dataclasses import dataclass, field

from console.tui.state.source import PollResult

_SMOOTHING = 0.5
_MAX_SAMPLES = 240


@dataclass(slots=True)
class Rate:
    """A counter's speed, smoothed."""

    value: float = 0.0
    per_second: float = 0.0
    at: float = 0.0

    def update(self, value: float, at: float) -> float:
        """The counter's new value; returns its speed."""
        if self.at == 0.0 or value < self.value:
            self.value, self.at, self.per_second = value, at, 0.0
        elif at - self.at >= (1.9 if self.per_second else 0.9):  # what the supervisor copies changes once a second
            speed = (value - self.value) / (at - self.at)
            self.per_second += (speed - self.per_second) * _SMOOTHING if self.per_second else speed
            self.value, self.at = value, at
        return self.per_second


@dataclass(slots=True)
class Rates:
    """Speeds, and the last minutes of them."""

    nodes: dict[str, Rate] = field(default_factory=dict)
    outputs: dict[str, Rate] = field(default_factory=dict)
    sizes: dict[str, Rate] = field(default_factory=dict)
    pages: Rate = field(default_factory=Rate)
    rows: Rate = field(default_factory=Rate)
    recent_pages_per_s: deque[float] = field(default_factory=lambda: deque(maxlen=_MAX_SAMPLES))
    hosts: dict[str, Rate] = field(default_factory=dict)
    run_id: str = ""
    _sampled_at: float = 0.0

    def update(self, look: PollResult) -> None:
        """Take a look into account."""
        run = look.snapshot.run
        if run is None:
            return
        if run.id != self.run_id:
            self.__init__()  # type: ignore[misc]
            self.run_id = run.id
        at = look.at
        self.pages.update(look.snapshot.jobs["done"], at)
        self.rows.update(sum(look.snapshot.rows.values()), at)
        for node in look.snapshot.nodes:
            self.nodes.setdefault(node.id, Rate()).update(node.done, at)
        for output in look.snapshot.appenders:
            self.outputs.setdefault(output.name, Rate()).update(output.rows, at)
            self.sizes.setdefault(output.name, Rate()).update(output.bytes, at)
        if at - self._sampled_at >= 0.95:
            self._sampled_at = at
            self.recent_pages_per_s.append(pages_per_s(look))

    def update_hosts(self, done: dict[str, int], at: float) -> dict[str, float]:
        """Pages a second by host, of what each has done by now."""
        return {host: self.hosts.setdefault(host, Rate()).update(count, at) for host, count in done.items()}

    def eta(self, look: PollResult) -> float | None:
        """Seconds until nothing is left, at the pace of now; None where nothing moves."""
        left = look.snapshot.jobs["ready"] + look.snapshot.jobs["taken"]
        speed = self.pages.per_second
        return left / speed if left and speed > 0.01 and look.supervisor_pid else None


def pages_per_s(look: PollResult) -> float:
    """What the supervisor measured last; 0 without one."""
    run = look.snapshot.run
    return run.rates["pages_per_s"] if run is not None and look.supervisor_pid else 0.0


def rows_per_s(look: PollResult) -> float:
    """What the supervisor measured last; 0 without one."""
    run = look.snapshot.run
    return run.rates["rows_per_s"] if run is not None and look.supervisor_pid else 0.0
