"""The table of hosts: pages, bad answers, latency, limits and waits of each."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from crawl_console.format import Span, format_age, format_latency, format_rate, format_size
from crawl_console.words.host_spans import bad_span, count_span, latency_trend, next_span, state_span
from crawl_console.words.table import Column, Row, item_row
from crawl_engine.store.read.host_rows import HostRow

CLASS_ROLES = {"2xx": "good", "3xx": "text", "4xx": "warn", "429": "warn", "5xx": "bad", "none": "bad"}
_SPARKS = 8
_SHOWN_CLASSES = {"4xx": 160, "429": 160, "5xx": 160, "none": 170, "2xx": 196, "3xx": 196}
"""The width from which a class of status has a column; below the table all of the chosen host are shown."""
_NOTHING: Span = ("·", "dim")


class ShownHost(NamedTuple):
    """A host, and whether a supervisor works on the run."""

    host: HostRow
    is_live: bool

    @property
    def eta(self) -> float | None:
        return self.host.eta if self.is_live and (self.host.waiting or self.host.running) else None


def _count(
    title: str, width: int, count: Callable[[HostRow], int], role: str, told: str, min_pane_width: int = 0
) -> Column[ShownHost]:
    """A column of counts."""

    def cell(shown: ShownHost) -> Span:
        return count_span(count(shown.host), role)

    return Column(
        title, width, cell, lambda shown: count(shown.host), told, right=True, min_pane_width=min_pane_width
    )  # fmt: skip


def _class_count(name: str, min_pane_width: int) -> Column[ShownHost]:
    """The column of a class of status."""
    told = "requests without an answer" if name == "none" else f"answers with status {name}"
    return _count(name.upper(), 6, lambda host: host.answers.get(name, 0), CLASS_ROLES[name], told, min_pane_width)


def _eta_span(shown: ShownHost) -> Span:
    return format_age(shown.eta), "text" if shown.eta is not None else "dim"


def _running_span(shown: ShownHost) -> Span:
    return f"{shown.host.running}/{shown.host.concurrency}", "good" if shown.host.running else "dim"


def _rate_span(shown: ShownHost) -> Span:
    rate = shown.host.pages_per_s
    return (format_rate(rate), "text") if shown.is_live and rate else _NOTHING


def _robots_span(shown: ShownHost) -> Span:
    status = shown.host.robots_status
    answer = "guarded" if status == -1 else f"ok {status or ''}"
    return {"off": "off", "wanted": "fetching"}.get(shown.host.robots, answer), "dim"


HOST_COLUMNS: Sequence[Column[ShownHost]] = (
    Column(
        "HOST", 0, lambda shown: (shown.host.host, "strong" if shown.host.running else "text"),
        lambda shown: shown.host.host, "its name and port", keeps_end=True,
    ),
    Column(
        "STATE", 13, lambda shown: state_span(shown.host, is_live=shown.is_live),
        lambda shown: str(shown.host.state), "how it is, by its last answers",
    ),
    _count("DONE", 6, lambda host: host.pages, "strong", "pages"),
    Column(
        "BAD%", 5, lambda shown: bad_span(shown.host), lambda shown: shown.host.bad_share,
        "the share of bad answers", right=True,
    ),
    _count("BLOCKED", 7, lambda host: host.blocked, "warn", "answers that refused the crawler", 92),
    Column(
        "P50", 6, lambda shown: (format_latency(shown.host.p50), "text"), lambda shown: shown.host.p50,
        "the median of its latency", right=True,
    ),
    Column(
        "P95", 6, lambda shown: (format_latency(shown.host.p95), "text"), lambda shown: shown.host.p95,
        "95 % of its answers took less", right=True,
    ),
    Column(
        "TREND", _SPARKS, lambda shown: (latency_trend(shown.host, _SPARKS), "dim"), lambda shown: shown.host.p50,
        "its latency in the last minute", min_pane_width=132,
    ),
    Column(
        "NEXT", 8, lambda shown: next_span(shown.host, is_live=shown.is_live),
        lambda shown: shown.host.backoff or shown.host.next_in, "until its next request", right=True,
        min_pane_width=100,
    ),
    Column("ETA", 6, _eta_span, lambda shown: shown.eta, "until its pages have ended", right=True),
    Column(
        "RUN", 5, _running_span, lambda shown: shown.host.running, "running requests, and their limit", right=True,
        min_pane_width=110,
    ),
    _count("WAITING", 7, lambda host: host.waiting, "text", "jobs", 118),
    Column(
        "PAGES/S", 7, _rate_span, lambda shown: shown.host.pages_per_s, "in the last ten seconds", right=True,
        min_pane_width=126,
    ),
    Column(
        "DELAY", 6, lambda shown: (format_age(shown.host.delay), "text") if shown.host.delay else _NOTHING,
        lambda shown: shown.host.delay, "between two requests", right=True, min_pane_width=142,
    ),
    *(_class_count(name, width) for name, width in _SHOWN_CLASSES.items()),
    Column(
        "BYTES", 6, lambda shown: (format_size(shown.host.bytes), "text") if shown.host.bytes else _NOTHING,
        lambda shown: shown.host.bytes, "received", right=True, min_pane_width=182,
    ),
    Column("ROBOTS", 8, _robots_span, lambda shown: shown.host.robots, "the answer for robots.txt"),
)  # fmt: skip


def host_row(host: HostRow, *, is_live: bool, columns: Sequence[Column[ShownHost]] = HOST_COLUMNS) -> Row:
    return item_row(columns, host.host, ShownHost(host, is_live), host)
