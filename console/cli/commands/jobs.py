"""The command `jobs`: lists the jobs of a run."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from console.cli.options import (
    choice,
    common_options,
    empty_without_run,
    lines_option,
    match_option,
    run_option,
    validate_assignments,
)
from console.format import format_elapsed
from console.sanitize import clean
from engine.store.db.filter import FILTER_STATES
from engine.urls import without_credentials

if TYPE_CHECKING:
    from engine.store.read.browse import JobLine

_PAGE_SIZE = 500
_HEADING = "      ID  STATE       TRIES     AGE  GROUP         URL"


@click.command()
@click.option(
    "--state", "states", multiple=True, type=choice(FILTER_STATES), help="Only in this state; may be repeated."
)
@match_option
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N; default: all.")
@lines_option
@run_option
@common_options
@empty_without_run
def jobs(
    states: Sequence[str],
    pattern: str | None,
    limit: int | None,
    as_json: bool,
    run_id: str | None,
    data: Path,
    assign: Sequence[str],
) -> int:
    """List the jobs of a run; failed ones newest first."""
    from console.cli.output import write_lines, write_stderr
    from console.client import open_latest_run
    from console.filter_syntax import job_filter
    from engine.store.read.browse import list_jobs

    validate_assignments(assign)
    filter_ = job_filter(pattern, [state.lower() for state in states])
    with open_latest_run(data, run_id=run_id) as (db, run):
        count, cursor = 0, None
        while limit is None or count < limit:
            size = _PAGE_SIZE if limit is None else min(_PAGE_SIZE, limit - count)
            page = list_jobs(db, run.seq, filter_, after=cursor, limit=size)
            if page.lines and not count and not as_json:
                write_lines([_HEADING])
            write_lines(map(_json, page.lines) if as_json else map(_line, page.lines))
            count, cursor = count + len(page.lines), page.next
            if cursor is None:
                break
        if not count and not as_json:
            write_stderr(f"no such job in run {run.id}")
    return 0


def _json(line: "JobLine") -> str:
    import orjson

    from console.client import job_as_dict

    return orjson.dumps(job_as_dict(line)).decode()


def _line(line: "JobLine") -> str:
    age = "-" if line.changed_at is None else format_elapsed(time.time() - line.changed_at)
    details = [
        f"→ {without_credentials(line.target)}" if line.target else "",
        line.reason or "",
        f"{line.crashes} crashes" if line.crashes else "",
        f"waits {format_elapsed(line.wait)}" if line.wait else "",
        f"in {line.node}" if line.state == "TAKEN" else "",
    ]
    notes = "; ".join(detail for detail in details if detail)
    text = f"{line.id:>8}  {line.state:<10}  {line.attempts:>5}  {age:>6}  {line.group:<12}  "
    return clean(text + without_credentials(line.url) + (f"  ({notes})" if notes else ""))
