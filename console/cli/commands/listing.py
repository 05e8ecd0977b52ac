"""The commands `jobs` and `retry`: what jobs there are, and those that failed made READY again, by the store."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from console.cli.output import write_lines, write_stderr
from console.client import has_supervisor, open_latest_run
from console.filter_syntax import job_filter
from console.sanitize import clean
from engine.store.read import browse
from engine.store.read.browse import JobLine
from engine.store.transactions import retry as retries
from engine.supervise.checkpoints.state_file import StateFile
from engine.urls import without_credentials

_PAGE_SIZE = 500
_HEADING = "      ID  STATE       TRIES     AGE  GROUP         URL"


def jobs(data: Path, states: Sequence[str], pattern: str | None, limit: int | None, *, as_json: bool) -> int:
    """List the jobs of the latest run, as they are found. Raises UsageError, StorageError."""
    wanted = job_filter(pattern, [state.lower() for state in states])
    with open_latest_run(data) as (db, run):
        told, at = 0, None
        while limit is None or told < limit:
            size = _PAGE_SIZE if limit is None else min(_PAGE_SIZE, limit - told)
            part = browse.list_jobs(db, run.seq, wanted, after=at, limit=size)
            if part.lines and not told and not as_json:
                write_lines([_HEADING])
            write_lines(map(_json, part.lines) if as_json else map(_line, part.lines))
            told, at = told + len(part.lines), part.next
            if at is None:
                break
        if not told and not as_json:
            write_stderr(f"no such job in run {run.id}")
    return 0


def retry(data: Path, states: Sequence[str], pattern: str | None) -> int:
    """Make jobs READY again, and say how many. Raises UsageError: the run is ending, or there is none."""
    wanted = job_filter(pattern, [state.lower() for state in states])
    with open_latest_run(data, write=True) as (db, run):
        count = retries.retry(db, run.seq, wanted)
        write_lines([retries.retry_message(count)])
        if count and not has_supervisor(db):
            StateFile(db, data, run).refresh()
            write_stderr("`crawl-console run` goes on with them")
    return 0


def job_as_dict(line: JobLine) -> dict[str, Any]:
    """A job as `jobs --json` tells it; names are stable."""
    return {
        "id": line.id, "kind": line.kind, "state": line.state, "group": line.group, "host": line.host,
        "url": without_credentials(line.url), "target": without_credentials(line.target) if line.target else None,
        "attempts": line.attempts, "crashes": line.crashes, "reason": line.reason, "priority": line.priority,
        "depth": line.depth, "origin": line.origin, "node": line.node, "wait": line.wait,
        "changed_at": line.changed_at,
    }  # fmt: skip


def _json(line: JobLine) -> str:
    return orjson.dumps(job_as_dict(line)).decode()


def _line(line: JobLine) -> str:
    age = "-" if line.changed_at is None else format_elapsed(time.time() - line.changed_at)
    notes = [
        f"→ {without_credentials(line.target)}" if line.target else "",
        line.reason or "",
        f"{line.crashes} crashes" if line.crashes else "",
        f"waits {format_elapsed(line.wait)}" if line.wait else "",
        f"in {line.node}" if line.state == "TAKEN" else "",
    ]
    told = "; ".join(note for note in notes if note)
    text = f"{line.id:>8}  {line.state:<10}  {line.attempts:>5}  {age:>6}  {line.group:<12}  "
    return clean(text + without_credentials(line.url) + (f"  ({told})" if told else ""))


def format_elapsed(seconds: float) -> str:
    """A time as an operator reads it: `4s`, `12m`, `3h`, `2d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"
