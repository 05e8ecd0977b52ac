"""Measures rates from successive polls: nodes, outputs, hosts and the run."""

from collections import deque

from msgspec import Struct, field

from console.tui.state.source import PollResult

_SMOOTHING = 0.5
_MAX_SAMPLES = 240


class Rate(Struct):
    value: float = 0.0
    per_second: float = 0.0
    at: float = 0.0

    def update(self, value: float, at: float) -> float:
        """Take the counter's new value; returns its rate."""
        if self.at == 0.0 or value < self.value:
            self.value, self.at, self.per_second = value, at, 0.0
        elif at - self.at >= (1.9 if self.per_second else 0.9):  # the supervisor copies counters once a second
            rate = (value - self.value) / (at - self.at)
            self.per_second += (rate - self.per_second) * _SMOOTHING if self.per_second else rate
            self.value, self.at = value, at
        return self.per_second


class Rates(Struct):
    """All rates, and the last minutes of pages a second."""

    nodes: dict[str, Rate] = field(default_factory=dict)
    outputs: dict[str, Rate] = field(default_factory=dict)
    sizes: dict[str, Rate] = field(default_factory=dict)
    pages: Rate = field(default_factory=Rate)
    rows: Rate = field(default_factory=Rate)
    recent_pages_per_s: deque[float] = field(default_factory=lambda: deque(maxlen=_MAX_SAMPLES))
    hosts: dict[str, Rate] = field(default_factory=dict)
    run_id: str = ""
    _sampled_at: float = 0.0

    def update(self, poll: PollResult) -> None:
        run = poll.snapshot.run
        if run is None:
            return
        if run.id != self.run_id:
            self.__init__()  # type: ignore[misc]
            self.run_id = run.id
        at = poll.at
        self.pages.update(poll.snapshot.jobs["done"], at)
        self.rows.update(sum(poll.snapshot.rows.values()), at)
        for node in poll.snapshot.nodes:
            self.nodes.setdefault(node.id, Rate()).update(node.done, at)
        for output in poll.snapshot.appenders:
            self.outputs.setdefault(output.name, Rate()).update(output.rows, at)
            self.sizes.setdefault(output.name, Rate()).update(output.bytes, at)
        if at - self._sampled_at >= 0.95:
            self._sampled_at = at
            self.recent_pages_per_s.append(pages_per_s(poll))

    def update_hosts(self, done: dict[str, int], at: float) -> dict[str, float]:
        """Pages a second by host, from each host's count so far."""
        return {host: self.hosts.setdefault(host, Rate()).update(count, at) for host, count in done.items()}


def pages_per_s(poll: PollResult) -> float:
    """The supervisor's last measurement; 0 without a supervisor."""
    run = poll.snapshot.run
    return run.rates["pages_per_s"] if run is not None and poll.supervisor_pid else 0.0


def rows_per_s(poll: PollResult) -> float:
    """The supervisor's last measurement; 0 without a supervisor."""
    run = poll.snapshot.run
    return run.rates["rows_per_s"] if run is not None and poll.supervisor_pid else 0.0
