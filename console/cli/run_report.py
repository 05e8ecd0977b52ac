"""The metrics of a run as lines for people: totals of each group, then what it all took. Knows no database."""

from engine.store.read.snapshot import Snapshot

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def report_lines(look: Snapshot) -> list[str]:
    """Lines to be cleaned and shown; none before the first page."""
    told = look.metrics
    if not told["groups"]:
        return []
    wide = max(5, *(len(g["group"]) for g in told["groups"]))
    lines = [
        f"  {'group':<{wide}}{'done':>9}{'failed':>8}{'skipped':>9}{'incomplete':>12}{'left':>9}{'fetches':>9}"
        f"{'ms each':>9}{'bytes':>10}{'retries':>9}"
    ]
    lines += [
        f"  {g['group']:<{wide}}{g['done']:>9}{g['failed']:>8}{g['skipped']:>9}{g['incomplete']:>12}{g['left']:>9}"
        f"{g['fetches']:>9}{_or_dash(g['fetch_ms'], '.1f'):>9}{format_bytes(g['bytes']):>10}{g['retries']:>9}"
        for g in told["groups"]
    ]
    parts = [
        f"{_or_dash(told['success'], '.1f')} % success",
        f"{told['seconds']:.1f} s",
        f"{told['pages_per_min']:.0f} pages/min",
        f"{_or_dash(told['fetch_ms'], '.1f')} ms a fetch",
        f"{format_bytes(told['bytes'])} fetched",
        _pluralize(told["retries"], "retry", "retries"),
        _pluralize(told["takeovers"], "takeover", "takeovers"),
    ]
    lines.append("  " + ", ".join(parts))
    shares = [f"{s['node']} {s['share']:.0f} %" for s in told["shares"] if s["share"]]
    if shares:
        lines.append("  worked by " + ", ".join(shares))
    return lines


def format_bytes(count: int) -> str:
    """A number of bytes as people read it."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _pluralize(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
