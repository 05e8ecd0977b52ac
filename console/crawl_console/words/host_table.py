"""The table of hosts: pages, bad answers, latency, limits and waits of each."""

from crawl_console.format import format_age, format_latency, format_rate, format_size
from crawl_console.words.host_spans import bad_span, count_span, latency_trend, next_span, state_span
from crawl_console.words.table import Column, Row
from crawl_engine.store.read.host_rows import HostRow

CLASS_ROLES = {"2xx": "good", "3xx": "text", "4xx": "warn", "429": "warn", "5xx": "bad", "none": "bad"}
_SPARKS = 8
_SHOWN_CLASSES = {"4xx": 160, "429": 160, "5xx": 160, "none": 170, "2xx": 196, "3xx": 196}
"""The width from which a class of status has a column; below the table all of the chosen host are shown."""
HOST_COLUMNS = (
    Column("HOST", 0, keeps_end=True), Column("STATE", 13), Column("DONE", 6, right=True),
    Column("BAD%", 5, right=True), Column("BLOCKED", 7, right=True, min_pane_width=92),
    Column("P50", 6, right=True), Column("P95", 6, right=True), Column("TREND", _SPARKS, min_pane_width=132),
    Column("NEXT", 8, right=True, min_pane_width=100), Column("ETA", 6, right=True),
    Column("RUN", 5, right=True, min_pane_width=110), Column("WAITING", 7, right=True, min_pane_width=118),
    Column("PAGES/S", 7, right=True, min_pane_width=126), Column("DELAY", 6, right=True, min_pane_width=142),
    *(Column(name.upper(), 6, right=True, min_pane_width=width) for name, width in _SHOWN_CLASSES.items()),
    Column("BYTES", 6, right=True, min_pane_width=182), Column("ROBOTS", 8),
)  # fmt: skip


def host_row(host: HostRow, *, is_live: bool) -> Row:
    answer = "guarded" if host.robots_status == -1 else f"ok {host.robots_status or ''}"
    robots = {"off": "off", "wanted": "fetching"}.get(host.robots, answer)
    eta = host.eta if is_live and (host.waiting or host.running) else None
    return Row(
        host.host,
        (
            (host.host, "strong" if host.running else "text"),
            state_span(host, is_live=is_live),
            count_span(host.pages, "strong"),
            bad_span(host),
            count_span(host.blocked, "warn"),
            (format_latency(host.p50), "text"),
            (format_latency(host.p95), "text"),
            (latency_trend(host, _SPARKS), "dim"),
            next_span(host, is_live=is_live),
            (format_age(eta), "text" if eta is not None else "dim"),
            (f"{host.running}/{host.concurrency}", "good" if host.running else "dim"),
            count_span(host.waiting, "text"),
            (format_rate(host.pages_per_s), "text") if is_live and host.pages_per_s else ("·", "dim"),
            (format_age(host.delay), "text") if host.delay else ("·", "dim"),
            *(count_span(host.answers.get(name, 0), CLASS_ROLES[name]) for name in _SHOWN_CLASSES),
            (format_size(host.bytes), "text") if host.bytes else ("·", "dim"),
            (robots, "dim"),
        ),
        (
            host.host, str(host.state), host.pages, host.bad_share, host.blocked, host.p50, host.p95, host.p50,
            host.backoff or host.next_in, eta, host.running, host.waiting, host.pages_per_s, host.delay,
            *(host.answers.get(name, 0) for name in _SHOWN_CLASSES), host.bytes, host.robots,
        ),
        host,
    )  # fmt: skip
