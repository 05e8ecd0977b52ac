"""How tables and panes show a host: what holds it, its bad answers, how its latency went."""

from collections.abc import Mapping
from types import MappingProxyType

from console.format import format_age, sparkline
from console.tui.widgets.line_canvas import Span
from engine.model.host import TROUBLE
from engine.store.read.host_rows import HostRow

_LOGINS: Mapping[str, Span] = MappingProxyType({"wanted": ("login", "warn"), "failed": ("no login", "bad")})


def next_span(host: HostRow, *, is_live: bool) -> Span:
    """When the next request to a host may be sent, or what holds it."""
    if not is_live:
        return "-", "dim"
    if host.paused:
        return "‖ paused", "warn"
    if host.login in _LOGINS and host.waiting:
        return _LOGINS[host.login]
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
    return ("-", "dim") if share is None else (f"{share * 100:.1f}", "bad" if share and has_trouble(host) else "dim")


def latency_trend(host: HostRow, width: int) -> str:
    """A sparkline of a host's latency in the last minute."""
    return sparkline([value or 0.0 for value in host.recent_p50], width)
