"""Metrics: what fetching cost, by run and group, moved by the commit; and the figures made of it. Writes `metrics`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.store.db.connector import Database

_ADD = """
INSERT INTO metrics (run, grp, fetches, fetch_seconds, bytes, retries) {values}
ON CONFLICT (run, grp) DO UPDATE SET fetches = fetches + excluded.fetches,
    fetch_seconds = fetch_seconds + excluded.fetch_seconds, bytes = bytes + excluded.bytes,
    retries = retries + excluded.retries
"""
_LIST = "SELECT grp, fetches, fetch_seconds, bytes, retries FROM metrics WHERE run = ? ORDER BY grp"
_TAKEOVERS = "SELECT takeovers FROM runs WHERE seq = ?"


class FetchStats(NamedTuple):
    """What one group's fetches cost: answers read to their end, their seconds, the bytes of their bodies as sent.

    `retries` counts the attempts that are made again. The group of robots.txt is the empty one.
    """

    group: str
    fetches: int
    seconds: float
    bytes: int
    retries: int


@dataclass(frozen=True, slots=True)
class GroupTotals:
    """Pages of one group by what became of them; `left` are those still to be worked."""

    group: str
    done: int
    failed: int
    skipped: int
    incomplete: int
    left: int


def add(db: Database, run: int, efforts: Sequence[FetchStats]) -> None:
    """Add to what the groups of a run have cost."""
    db.execute_values(_ADD, [(run, *effort) for effort in efforts])


def list_fetch_stats(db: Database, run: int) -> list[FetchStats]:
    """What each group of a run has cost."""
    return [FetchStats(*row) for row in db.all(_LIST, (run,))]


def count_takeovers(db: Database, run: int) -> int:
    """How often the jobs of a node that died went to others."""
    return int(db.value(_TAKEOVERS, (run,)) or 0)


def build_metrics(
    totals: Sequence[GroupTotals],
    efforts: Sequence[FetchStats],
    worked: Mapping[str, int],
    seconds: float,
    takeovers: int,
) -> dict[str, Any]:
    """The object `metrics` of `status --json`. `worked`: jobs that each node finished; `seconds`: the run's duration.

    A share or a mean of nothing is null.
    """
    done, failed = sum(t.done for t in totals), sum(t.failed for t in totals)
    spent = {effort.group: effort for effort in efforts}
    fetches, all_worked = sum(e.fetches for e in efforts), sum(worked.values())
    return {
        "seconds": round(seconds, 3),
        "success": _percent(done, done + failed),
        "pages_per_min": round(done / seconds * 60, 1) if seconds > 0 else 0.0,
        "fetches": fetches,
        "fetch_ms": _mean_ms(fetches, sum(e.seconds for e in efforts)),
        "bytes": sum(e.bytes for e in efforts),
        "retries": sum(e.retries for e in efforts),
        "takeovers": takeovers,
        "groups": [_group_item(t, spent.get(t.group) or FetchStats(t.group, 0, 0.0, 0, 0)) for t in totals],
        "shares": [
            {"node": node, "jobs": count, "share": _percent(count, all_worked)} for node, count in worked.items()
        ],
    }


def _group_item(totals: GroupTotals, effort: FetchStats) -> dict[str, Any]:
    return {
        "group": totals.group, "done": totals.done, "failed": totals.failed, "skipped": totals.skipped,
        "incomplete": totals.incomplete, "left": totals.left, "fetches": effort.fetches,
        "fetch_ms": _mean_ms(effort.fetches, effort.seconds), "bytes": effort.bytes, "retries": effort.retries,
    }  # fmt: skip


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None


def _mean_ms(count: int, seconds: float) -> float | None:
    return round(seconds / count * 1000, 2) if count else None
