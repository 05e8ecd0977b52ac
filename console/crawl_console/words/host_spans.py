"""How tables and panes show a host: its state, what holds it, its bad answers, how its latency went."""

import math
from collections.abc import Mapping
from types import MappingProxyType

from crawl_console.format import Span, describe_state, format_age, format_count
from crawl_console.words.health_line import STATE_MARKS
from crawl_engine.model.host import TROUBLE, HostState
from crawl_engine.store.read.host_rows import HostRow

_LOGINS: Mapping[str, Span] = MappingProxyType({"wanted": ("… login", "warn"), "failed": ("✗ no login", "bad")})
_TREND_SIGNS = "▁▂▃▄▅▆▇█"
_TREND_SECONDS = (0.001, 60.0)
"""The ends of the scale of all trends, which is logarithmic: each sign is four to five times the one before."""


def state_span(host: HostRow, *, is_live: bool) -> Span:
    """How a host is: `● ok`, `✗ silent 40 s`, `◌ rest 24 s`, `‖ paused`."""
    if not is_live and not host.paused:
        return "○ ended", "dim"
    if host.login in _LOGINS and host.waiting and not host.paused:
        return _LOGINS[host.login]
    state = HostState.PAUSED if host.paused else host.state
    (mark, role), word = STATE_MARKS[state], describe_state(state)
    seconds = {HostState.SILENT: host.silent, HostState.RESTING: host.backoff}.get(host.state)
    return f"{mark} {word}" + (f" {seconds:.0f} s" if seconds and not host.paused else ""), role


def count_span(number: float, role: str) -> Span:
    """A count; nothing at all is a dim dot."""
    return (format_count(number), role) if number else ("·", "dim")


def next_span(host: HostRow, *, is_live: bool) -> Span:
    """When the next request to a host may be sent, or what holds it."""
    if not is_live:
        return "-", "dim"
    if host.paused or host.state is HostState.PAUSED:
        return "‖ paused", "warn"
    if host.login in _LOGINS and host.waiting:
        text, role = _LOGINS[host.login]
        return text[2:], role
    if host.backoff:
        return f"↓ {format_age(host.backoff)}", "warn"
    if host.next_in and host.waiting:
        return format_age(host.next_in), "text"
    return ("now", "text") if host.running or host.waiting else ("idle", "dim")


def has_trouble(host: HostRow) -> bool:
    """Whether a host lost its login, or its last answers say that it is not well."""
    return host.login == "failed" or host.state in TROUBLE


def host_rank(host: HostRow) -> tuple[bool, bool, int]:
    """Trouble first, then work, the most that is left first; not by exact numbers, which change with every poll."""
    has_work = bool(host.running or host.waiting)
    return not has_trouble(host), not has_work, -(host.running + host.waiting).bit_length()


def bad_span(host: HostRow) -> Span:
    """The share of all its answers that are bad, in percent; marked while it is not well."""
    share = host.bad_share
    if not share:
        return ("-" if share is None else "·", "dim")
    return f"{share * 100:.1f}", "bad" if has_trouble(host) else "text"


def latency_trend(host: HostRow, width: int) -> str:
    """The latency of the last intervals, a sign each, on the scale of all hosts; blank: no answer."""
    low, high = map(math.log, _TREND_SECONDS)
    signs = []
    for value in host.recent_p50[-width:]:
        level = 0.0 if not value else (math.log(value) - low) / (high - low) * len(_TREND_SIGNS)
        signs.append(" " if value is None else _TREND_SIGNS[max(0, min(len(_TREND_SIGNS) - 1, int(level)))])
    return "".join(signs)
