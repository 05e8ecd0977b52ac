"""Writes the table `metrics` (cost of fetches by run and group), and builds the figures shown of it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from crawl_engine.errors import plural
from crawl_engine.store.db.connector import Database

_ADD = """
INSERT INTO metrics (run, grp, fetches, fetch_seconds, bytes, retries, noindex, requests, plain, rendered) {values}
ON CONFLICT (run, grp) DO UPDATE SET fetches = metrics.fetches + excluded.fetches,
    fetch_seconds = metrics.fetch_seconds + excluded.fetch_seconds, bytes = metrics.bytes + excluded.bytes,
    retries = metrics.retries + excluded.retries, noindex = metrics.noindex + excluded.noindex,
    requests = metrics.requests + excluded.requests,
    plain = metrics.plain + excluded.plain, rendered = metrics.rendered + excluded.rendered
"""
_LIST = """
SELECT grp AS "group", fetches, fetch_seconds AS seconds, bytes, retries, noindex, 0 AS requests, plain, rendered
FROM metrics
WHERE run = ? AND fetches + retries + noindex > 0 ORDER BY grp
"""
_ASKING_FIRST = """
SELECT g.value ->> 'name' FROM def_versions v, json_each(v.definitions, '$.task_groups') g
WHERE v.version = ? AND g.value ->> '$.loader.browser.when' IS NOT NULL
"""

_NEARLY_ALL, _MIN_ADVISED = 0.9, 20
"""The share of rendered pages, of so many, from which asking for each without the browser first costs more."""


class FetchStats(NamedTuple):
    """Cost of a group's fetches: complete responses, their seconds, the bytes of their bodies as sent.

    `retries` counts the attempts that are repeated, `noindex` the pages that ask not to be indexed. The group of
    robots.txt is the empty one. `requests` is for the page limits alone, and is not read back.
    """

    group: str
    fetches: int
    seconds: float
    bytes: int
    retries: int
    noindex: int = 0
    requests: int = 0
    """Requests sent for pages."""
    plain: int = 0
    """Of a group with a browser: pages that were got without it, and those that it loaded."""
    rendered: int = 0


class GroupTotals(Struct, frozen=True):
    """The pages of a group. Field names and their order are keys of `status --json`."""

    group: str
    done: int
    failed: int
    skipped: int
    incomplete: int
    left: int


def add(db: Database, run: int, stats: Sequence[FetchStats]) -> None:
    db.execute_values(_ADD, [(run, *group_stats) for group_stats in stats])


def list_fetch_stats(db: Database, run: int) -> list[FetchStats]:
    return db.rows(FetchStats, _LIST, (run,))


def list_asking_first(db: Database, version: int | None) -> list[str]:
    """The groups that ask for pages without their browser first, by a version of the defs."""
    return db.column(_ASKING_FIRST, (version,))


def count_noindex(db: Database, run: int) -> int:
    return int(db.value("SELECT total(noindex) FROM metrics WHERE run = ?", (run,)))


def build_metrics(
    totals: Sequence[GroupTotals],
    stats: Sequence[FetchStats],
    jobs_by_node: Mapping[str, int],
    seconds: float,
    takeovers: int,
    asking_first: Collection[str] = (),
) -> dict[str, Any]:
    """The object `metrics` of `status --json`. Shares and means of nothing are null.

    `seconds`: the run's duration. `asking_first`: groups that ask for pages without their browser first.
    """
    done, failed = sum(t.done for t in totals), sum(t.failed for t in totals)
    stats_by_group = {s.group: s for s in stats}
    fetches, all_jobs = sum(s.fetches for s in stats), sum(jobs_by_node.values())
    return {
        "seconds": round(seconds, 3),
        "success": _percent(done, done + failed),
        "pages_per_min": round(done / seconds * 60, 1) if seconds > 0 else 0.0,
        "fetches": fetches,
        "fetch_ms": _mean_ms(fetches, sum(s.seconds for s in stats)),
        "bytes": sum(s.bytes for s in stats),
        "retries": sum(s.retries for s in stats),
        "takeovers": takeovers,
        "groups": [
            _group_item(t, stats_by_group.get(t.group) or FetchStats(t.group, 0, 0.0, 0, 0), t.group in asking_first)
            for t in totals
        ],
        "shares": [
            {"node": node, "jobs": count, "share": _percent(count, all_jobs)} for node, count in jobs_by_node.items()
        ],
    }


def _group_item(totals: GroupTotals, stats: FetchStats, asks_first: bool) -> dict[str, Any]:
    mean = _mean_ms(stats.fetches, stats.seconds)
    fetched = {"fetches": stats.fetches, "fetch_ms": mean, "bytes": stats.bytes, "retries": stats.retries}
    loaded = {"plain": stats.plain, "rendered": stats.rendered, "browser": describe_browser(stats, asks_first)}
    return asdict(totals) | fetched | loaded


def describe_browser(stats: FetchStats, asks_first: bool) -> str | None:
    """For how many pages of a group its browser was needed, with advice; None: it has no browser, or no page yet."""
    pages = stats.plain + stats.rendered
    if not pages:
        return None
    if asks_first and pages >= _MIN_ADVISED and stats.rendered >= _NEARLY_ALL * pages:
        return f"{stats.rendered:,} of {pages:,} pages rendered, each asked for twice: without `when`, once is enough"
    if not stats.plain:
        return f"{plural(pages, 'page')} rendered"
    return f"{stats.plain:,} of {plural(pages, 'page')} needed no browser"


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None


def _mean_ms(count: int, seconds: float) -> float | None:
    return round(seconds / count * 1000, 2) if count else None
