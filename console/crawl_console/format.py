"""Formats counts, sizes, times, bars, plots and plans for people."""

import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from crawl_engine.errors import plural as plural
from crawl_engine.model.host import HostState
from crawl_engine.model.run import Eta, HostGroup, SeedingProgress

if TYPE_CHECKING:
    from crawl_engine.preview.plan import PlannedChanges
    from crawl_engine.runtime.beat_file import NodeBrowsers

Span = tuple[str, str]
"""A text and its role, by which a console chooses its style: `text dim good warn bad accent title strong`."""

_SPARKS = "▁▂▃▄▅▆▇█"
_BRAILLE = 0x2800
_LEFT = (0x40, 0x04, 0x02, 0x01)
_RIGHT = (0x80, 0x20, 0x10, 0x08)
_UNITS = ("", "k", "M", "G", "T")
_MAX_DAYS_AGO = 30
_URL = re.compile(r"https?://\S*[^\s;,:]")
_MIN_URL, _MIN_BEFORE, _MIN_SUBJECT = 27, 10, 6


def format_count(number: float) -> str:
    """A count in at most 6 characters: `12,480`, `1.25M`."""
    if abs(number) < 100_000:
        return f"{int(number):,}"
    return _format_scaled(number, 1000.0)


def format_size(number: float) -> str:
    """Bytes in at most 6 characters: `84`, `12.3k`, `1.2G`."""
    return _format_scaled(number, 1024.0) if abs(number) >= 1024 else str(int(number))


def _format_scaled(number: float, step: float) -> str:
    power = 0
    while abs(number) >= step and power < len(_UNITS) - 1:
        number, power = number / step, power + 1
    return f"{number:.{2 if abs(number) < 10 else 1 if abs(number) < 100 else 0}f}{_UNITS[power]}"


def format_rate(number: float) -> str:
    """A rate per second: `0.0`, `42.1`, `204`."""
    return f"{number:.1f}" if abs(number) < 99.95 else format_count(round(number))


def format_age(seconds: float | None) -> str:
    """A short duration: `20ms`, `0.3s`, `12s`, `4m05`, `1h02`, `3d04`; `-` for None."""
    if seconds is None:
        return "-"
    if 0.001 <= seconds < 0.095:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}"


def format_latency(seconds: float | None) -> str:
    """How long an answer takes: `42ms`, `1.2s`, `34s`; `-` for None."""
    if seconds is not None and seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    return format_age(seconds)


def format_elapsed(seconds: float) -> str:
    """The time since something happened, in one unit, so that it rarely changes: `4s`, `12m`, `3h`, `2d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def format_clock(seconds: float | None) -> str:
    """A duration as `00:04:56`; `--:--:--` for None, `>99h` above that."""
    if seconds is None:
        return "--:--:--"
    whole = int(seconds)
    return f"{whole // 3600:02}:{whole % 3600 // 60:02}:{whole % 60:02}" if whole < 360_000 else ">99h"


def format_eta(eta: Eta) -> str:
    """The end of a run: `3:12`, `≥ 3:12` while new pages appear, `paused`, `-` if unknown."""
    if eta.seconds is None:
        return "paused" if eta.bound_by == "paused" else "-"
    minutes, seconds = divmod(math.ceil(eta.seconds), 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    return clock if eta.exact else f"≥ {clock}"


def describe_eta(eta: Eta) -> str:
    """The same with its bound: `3:12, bound by img.example (delay 0.5 s)`, `cannot say: img.example:80 silent 24 s`."""
    if obstacle := eta_obstacle(eta):
        return f"cannot say: {obstacle}"
    bound = eta_bound(eta)
    if not bound:
        return format_eta(eta)
    return f"{format_eta(eta)}, {'bound by ' if eta.bound_by else ''}{bound}"


def eta_obstacle(eta: Eta) -> str:
    """Why nobody can say when a run ends: `img.example:80 silent 24 s`; empty if it is estimated or paused."""
    return eta.reason or "" if eta.seconds is None and eta.bound_by != "paused" else ""


def eta_bound(eta: Eta) -> str:
    """What bounds the end of a run, and what it leaves out: `img.example (delay 0.5 s); without 4 paused pages`."""
    if eta.seconds is None:
        return ""
    host = (eta.bound_by or "").removesuffix(":443").removesuffix(":80")
    bound = f"{host} ({eta.reason})" if eta.reason else host
    apart = f"without {plural(eta.paused, 'paused page')}" if eta.paused else ""
    return "; ".join(filter(None, (bound, apart)))


def describe_pause(paused: str, by: str | None) -> str:
    """What holds a run, and who: `operator`, `operator (web 10.1.2.3), disk`."""
    return paused.replace("operator", f"operator ({by})") if by else paused


def describe_seeding(seeding: SeedingProgress) -> str:
    """`seeding 340,000 of ~1,000,000 (34 %)`; the number alone if the length of the list is not known."""
    text = f"seeding {seeding.line:,}"
    if (total := seeding.total) is not None:
        digits = max(0, len(str(total)) - 3) if seeding.offset != seeding.size else 0
        about = "~" if digits else ""
        text += f" of {about}{round(total, -digits):,} ({seeding.line / max(total, 1):.0%})".replace("%", " %")
    return f"{text}, {seeding.unusable:,} give no job" if seeding.unusable else text


def describe_browsers(browsers: "NodeBrowsers | None") -> list[str]:
    """The browsers of a node, a line each: `browser 4711: 12 pages, loads 2 now, 210MB, 34s old  https://…`."""
    if browsers is None:
        return []
    lines = [
        f"browser {one.pid}: {plural(one.pages, 'page')}, loads {one.loading} now, {format_memory(one.rss)},"
        f" {format_age(one.age)} old  {', '.join(one.urls)}".rstrip()
        for one in browsers.processes
    ]
    return [*lines, *([describe_replaced(browsers)] if browsers.replaced else [])]


def describe_replaced(browsers: "NodeBrowsers") -> str:
    """`3 browsers replaced, last: its process ended (signal 9)`."""
    return f"{plural(browsers.replaced, 'browser')} replaced, last: {browsers.reason}"


def format_memory(number: int) -> str:
    """Bytes, or that they are not known yet."""
    return f"{format_size(number)}B" if number else "-"


def describe_state(state: HostState) -> str:
    """A state of hosts behind their number: `2 rest`, `1 not asked`."""
    return {HostState.RESTING: "rest", HostState.UNASKED: "not asked"}.get(state, str(state))


def list_names(group: HostGroup, most: int | None = None) -> str:
    """The first hosts of a group, and how many more there are."""
    shown = group.names[:most]
    return ", ".join([*shown, *([f"+{group.count - len(shown):,}"] if group.count > len(shown) else [])])


def project_name(data: Path) -> str:
    """The name of the data dir, or of its parent if it is just called `data`."""
    path = data.absolute()
    return path.parent.name if path.name == "data" else path.name


def format_time(at: float) -> str:
    """A wall-clock time of today: `12:04:31`."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def format_date_time(at: float) -> str:
    """A wall-clock time with its date: `2024-05-01 12:04:31`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def format_day(at: float, now: float) -> str:
    """The day of a moment as people say it: `today`, `yesterday`, `3 days ago`, `2024-05-01`."""
    days = (datetime.fromtimestamp(now).date() - datetime.fromtimestamp(at).date()).days
    if days > _MAX_DAYS_AGO:
        return time.strftime("%Y-%m-%d", time.localtime(at))
    return {0: "today", 1: "yesterday"}.get(days, f"{days} days ago") if days >= 0 else "today"


def progress_bar(share: float | None, width: int) -> str:
    """A progress bar of `width` cells; it is full at 1 alone. None: nobody can say how far it is."""
    if share is None:
        return "╌" * width
    full = int(max(0.0, min(1.0, share)) * width)
    return "━" * full + "─" * (width - full)


def sparkline(values: Sequence[float], width: int) -> str:
    """The last values, one cell each, scaled to the highest of them."""
    shown = list(values)[-width:]
    top = max(shown, default=0.0)
    if top <= 0:
        return _SPARKS[0] * len(shown)
    return "".join(_SPARKS[min(7, int(value / top * 7.999))] if value > 0 else _SPARKS[0] for value in shown)


def trend(values: Sequence[float | None]) -> str:
    """The values, one cell each, scaled from the lowest to the highest of them; None: a gap."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return "".join(" " if value is None else _SPARKS[int(scale(value, low, high) * 7.999)] for value in values)


def scale(value: float, low: float, high: float) -> float:
    """Where a value is between the lowest and the highest, 0 to 1; in the middle if they are equal."""
    return (value - low) / (high - low) if high > low else 0.5


def braille_plot(values: Sequence[float], width: int, height: int, *, top: float | None = None) -> list[str]:
    """Plot the values as filled columns, two per cell, right-aligned, in `height` lines. `top`: end of the scale."""
    if width <= 0 or height <= 0:
        return []
    shown = list(values)[-width * 2 :]
    high = top if top is not None else max(shown, default=0.0)
    dots = [0] * (width * 2 - len(shown)) + [_column_dots(value, high, height) for value in shown]
    lines = []
    for line in range(height - 1, -1, -1):
        ends = [max(0, min(4, dot - line * 4)) for dot in dots]
        lines.append("".join(braille_cell(range(ends[at]), range(ends[at + 1])) for at in range(0, 2 * width, 2)))
    return lines


def braille_cell(left: Iterable[int], right: Iterable[int]) -> str:
    """A cell with dots in its left and right half, counted from below; a blank without dots."""
    bits = sum(_LEFT[dot] for dot in left) + sum(_RIGHT[dot] for dot in right)
    return chr(_BRAILLE + bits) if bits else " "


def filled_plot(values: Sequence[float | None], width: int, height: int) -> list[str]:
    """Plot the values over the whole width, from the lowest to the highest of them; None: a gap."""
    shown = values[-2 * width :]
    known = [value for value in shown if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    heights = [0.0 if value is None else max(0.01, scale(value, low, high)) for value in shown]
    columns = [heights[number * len(shown) // (2 * width)] for number in range(2 * width)] if shown else []
    return braille_plot(columns, width, height, top=1.0)


def _column_dots(value: float, high: float, height: int) -> int:
    if value <= 0 or high <= 0:
        return 0
    return max(1, min(height * 4, round(value / high * height * 4)))


def short_url(url: str) -> str:
    """A URL for a narrow column: without its scheme, percent escapes decoded where they are UTF-8."""
    rest = url.partition("://")[2] or url
    try:
        return unquote(rest, errors="strict") if "%" in rest else rest
    except UnicodeDecodeError:
        return rest


def shorten_end(text: str, width: int) -> str:
    """A text in at most `width` characters; one that was cut ends in `…`."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def shorten_name(text: str, width: int) -> str:
    """A name in at most `width` characters: its start and its end, which distinguish it from others."""
    if len(text) <= width:
        return text
    end = max(1, (width - 1) // 2)
    return f"{text[: max(0, width - 1 - end)]}…{text[-end:]}"


def shorten_url(url: str, width: int) -> str:
    """A URL without scheme in at most `width` characters if possible: host, `…`, and its end."""
    if len(url) <= width:
        return url
    host, slash, path = url.partition("/")
    end = width - len(host) - 2
    return f"{host}{slash}…{path[-end:]}" if slash and end > 1 else shorten_name(url, width)


def shorten_subject(text: str, width: int) -> str:
    """A name or URL, with what is said of it behind ` · `, in at most `width` characters; other text as it is."""
    subject, dot, rest = text.partition(" · ")
    room = width - len(dot) - len(rest)
    return text if " " in subject or room < _MIN_SUBJECT else shorten_url(subject, room) + dot + rest


def shorten_line(text: str, width: int) -> str:
    """A line of the log with its first URL decoded, and shortened to `width` characters if possible."""
    match = _URL.search(text)
    if match is None:
        return text
    before, after = text[: match.start()], text[match.end() :]
    url = shorten_url(short_url(match[0]), max(_MIN_URL, width - len(before) - len(after)))
    room = width - len(url) - len(after)
    if len(before) > room > _MIN_BEFORE:  # what is said of the URL gives way to it
        before = before[: room - 3].rstrip() + "…  "
    return before + url + after


def mask_header(name: str, value: str) -> str:
    """The value of a request header as it may be shown: that of a header which may hold a secret is masked."""
    from crawl_engine.model.host import SAFE_HEADERS

    return value if name.lower() in SAFE_HEADERS else "·····"


def format_signal(signal: Mapping[str, str]) -> str:
    """What a robots.txt says of the use of pages: `search=yes, ai-train=no`."""
    return ", ".join(f"{use}={value}" for use, value in signal.items())


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table as lines whose cells are aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def plan_lines(plan: "PlannedChanges") -> Iterator[tuple[str, str]]:
    """The effects of publishing the defs on disk: lines, each with a role of the console's themes."""
    from crawl_engine.preview.stored_pages import keeps_none_message

    if not plan.differs:
        yield f"the defs on disk have the meaning of v{plan.version}: nothing would change", "good"
        return
    yield f"publishing them over v{plan.version}: {plan.text}", "strong"
    if plan.keeps_pages:
        yield (
            "done pages keep their rows (on_reload = new_only); below is what the new defs find in them",
            "warn",
        )
    if plan.compared:
        yield f"rows in {_scope(plan)}:", "text"
        changed = {name: c for name, c in plan.rows.items() if c.added or c.changed or c.removed}
        for name, counts in changed.items():
            yield f"  {name}: +{counts.added:,} ~{counts.changed:,} −{counts.removed:,}", "warn"
        if not changed:
            yield "  no difference", "good"
    for name, fields in plan.emptied.items():
        for field, count in fields.items():
            yield f"✗ {name}.{field}: empty in {plural(count, 'row')} that had a value", "bad"
    for group, count in plan.pruned.items():
        yield f"{keeps_none_message(group)}: {plural(count, 'page')} would keep their rows", "warn"
    if others := plan.unreadable - plan.pruned.total():
        yield f"{plural(others, 'page')} cannot be extracted and would keep their rows", "warn"


def _scope(plan: "PlannedChanges") -> str:
    if plan.exact and not plan.unreadable:
        return f"all {plan.compared:,} pages"
    return f"{plan.compared:,} of {plan.pages:,} pages{'' if plan.exact else ' (`plan --full` compares all)'}"
