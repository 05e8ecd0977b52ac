"""What a console remembers between looks: how fast nodes, outputs and the run went. Knows nothing of widgets."""

from collections import deque
from dataclasses import dataclass, field

from console.tui.state.source import Look

_SMOOTH = 0.5
_SPARK = 240


@dataclass(slots=True)
class Pace:
    """A counter's speed, smoothed."""

    value: float = 0.0
    per_second: float = 0.0
    at: float = 0.0

    def count(self, value: float, at: float) -> float:
        """The counter's new value; returns its speed."""
        if self.at == 0.0 or value < self.value:
            self.value, self.at, self.per_second = value, at, 0.0
        elif at - self.at >= (1.9 if self.per_second else 0.9):  # what the supervisor copies changes once a second
            speed = (value - self.value) / (at - self.at)
            self.per_second += (speed - self.per_second) * _SMOOTH if self.per_second else speed
            self.value, self.at = value, at
        return self.per_second


@dataclass(slots=True)
class Paces:
    """Speeds, and the last minutes of them."""

    nodes: dict[str, Pace] = field(default_factory=dict)
    outputs: dict[str, Pace] = field(default_factory=dict)
    sizes: dict[str, Pace] = field(default_factory=dict)
    pages: Pace = field(default_factory=Pace)
    rows: Pace = field(default_factory=Pace)
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_SPARK))
    hosts: dict[str, Pace] = field(default_factory=dict)
    run: str = ""
    _sampled: float = 0.0

    def note(self, look: Look) -> None:
        """Take a look into account."""
        run = look.snapshot.run
        if run is None:
            return
        if run.id != self.run:
            self.__init__()  # type: ignore[misc]
            self.run = run.id
        at = look.at
        self.pages.count(look.snapshot.jobs["done"], at)
        self.rows.count(sum(look.snapshot.rows.values()), at)
        for node in look.snapshot.nodes:
            self.nodes.setdefault(node["id"], Pace()).count(node["done"], at)
        for output in look.snapshot.appenders:
            self.outputs.setdefault(output["name"], Pace()).count(output["rows"], at)
            self.sizes.setdefault(output["name"], Pace()).count(output["bytes"], at)
        if at - self._sampled >= 0.95:
            self._sampled = at
            self.recent.append(pages_per_s(look))

    def hosts_at(self, done: dict[str, int], at: float) -> dict[str, float]:
        """Pages a second by host, of what each has done by now."""
        return {host: self.hosts.setdefault(host, Pace()).count(count, at) for host, count in done.items()}

    def eta(self, look: Look) -> float | None:
        """Seconds until nothing is left, at the pace of now; None where nothing moves."""
        left = look.snapshot.jobs["ready"] + look.snapshot.jobs["taken"]
        speed = self.pages.per_second
        return left / speed if left and speed > 0.01 and look.supervisor else None


def pages_per_s(look: Look) -> float:
    """What the supervisor measured last; 0 without one."""
    run = look.snapshot.run
    return run.rates["pages_per_s"] if run is not None and look.supervisor else 0.0


def rows_per_s(look: Look) -> float:
    """What the supervisor measured last; 0 without one."""
    run = look.snapshot.run
    return run.rates["rows_per_s"] if run is not None and look.supervisor else 0.0
