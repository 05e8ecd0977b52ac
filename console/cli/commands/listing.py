"""The commands `jobs` and `retry`: what jobs there are, and those that failed made READY again, by the store."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from console.cli.output import tell, write
from console.client import governed, opened
from console.filter_syntax import matching
from console.sanitize import clean
from engine.store.read import browse
from engine.store.read.browse import JobLine
from engine.store.transactions import retry as retries
from engine.supervise.checkpoints.state_file import StateFile
from engine.urls import without_credentials

_AT_ONCE = 500
_HEAD = "      ID  STATE       TRIES     AGE  GROUP         URL"


def jobs(data: Path, states: Sequence[str], pattern: str | None, limit: int | None, *, as_json: bool) -> int:
    """List the jobs of the latest run, as they are found. Raises UsageError, StorageError."""
    wanted = matching(pattern, [state.lower() for state in states])
    with opened(data) as (db, run):
        told, at = 0, None
        while limit is None or told < limit:
            size = _AT_ONCE if limit is None else min(_AT_ONCE, limit - told)
            part = browse.page(db, run.seq, wanted, after=at, limit=size)
            if part.lines and not told and not as_json:
                write([_HEAD])
            write(map(_json, part.lines) if as_json else map(_line, part.lines))
            told, at = told + len(part.lines), part.next
            if at is None:
                break
        if not told and not as_json:
            tell(f"no such job in run {run.id}")
    return 0


def retry(data: Path, states: Sequence[str], pattern: str | None) -> int:
    """Make jobs READY again, and say how many. Raises UsageError: the run is ending, or there is none."""
    wanted = matching(pattern, [state.lower() for state in states])
    with opened(data, write=True) as (db, run):
        count = retries.retry(db, run.seq, wanted)
        write([retries.told(count)])
        if count and not governed(db):
            StateFile(db, data, run).refresh()
            tell("`crawl-console run` goes on with them")
    return 0


def as_object(line: JobLine) -> dict[str, Any]:
    """A job as `jobs --json` tells it; names are stable."""
    return {
        "id": line.id, "kind": line.kind, "state": line.state, "group": line.group, "host": line.host,
        "url": without_credentials(line.url), "target": without_credentials(line.target) if line.target else None,
        "attempts": line.attempts, "crashes": line.crashes, "reason": line.reason, "priority": line.priority,
        "depth": line.depth, "origin": line.origin, "node": line.node, "wait": line.wait,
        "changed_at": line.changed_at,
    }  # fmt: skip


def _json(line: JobLine) -> str:
    return orjson.dumps(as_object(line)).decode()


def _line(line: JobLine) -> str:
    age = "-" if line.changed_at is None else span(time.time() - line.changed_at)
    notes = [
        f"→ {without_credentials(line.target)}" if line.target else "",
        line.reason or "",
        f"{line.crashes} crashes" if line.crashes else "",
        f"waits {span(line.wait)}" if line.wait else "",
        f"in {line.node}" if line.state == "TAKEN" else "",
    ]
    told = "; ".join(note for note in notes if note)
    text = f"{line.id:>8}  {line.state:<10}  {line.attempts:>5}  {age:>6}  {line.group:<12}  "
    return clean(text + without_credentials(line.url) + (f"  ({told})" if told else ""))


def span(seconds: float) -> str:
    """A time as an operator reads it: `4s`, `12m`, `3h`, `2d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"
