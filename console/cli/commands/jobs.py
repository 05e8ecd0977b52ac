"""The command `jobs`: lists the jobs of a run."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from console.cli.options import (
    Number,
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
@click.option("--limit", type=Number(), metavar="N", help="At most N; default: all.")
@click.option("--why", is_flag=True, help="Say why each waiting job is not fetched now.")
@lines_option
@run_option
@common_options
@empty_without_run
def jobs(
    states: Sequence[str],
    match: str | None,
    limit: int | None,
    why: bool,
    as_json: bool,
    run_id: str | None,
    data: Path,
    assign: Sequence[str],
) -> int:
    """List the jobs of a run; failed ones newest first."""
    from console.cli.output import write_lines, write_stderr
    from console.client import explain_waits, open_latest_run
    from console.filter_syntax import job_filter
    from engine.store.read.browse import list_jobs

    validate_assignments(assign)
    filter_ = job_filter(match, [state.lower() for state in states])
    with open_latest_run(data, run_id=run_id) as (db, run):
        count, cursor = 0, None
        while limit is None or count < limit:
            size = _PAGE_SIZE if limit is None else min(_PAGE_SIZE, limit - count)
            page = list_jobs(db, run.seq, filter_, after=cursor, limit=size)
            if page.lines and not count and not as_json:
                write_lines([_HEADING])
            reasons = explain_waits(db, run.seq, page.lines) if why else {}
            write_lines(_json(line, reasons) if as_json else _line(line, reasons) for line in page.lines)
            count, cursor = count + len(page.lines), page.next
            if cursor is None:
                break
        if not count and not as_json:
            write_stderr(f"no such job in run {run.id}")
    return 0


def _json(line: "JobLine", reasons: Mapping[int, str]) -> str:
    import orjson

    from console.client import job_as_dict

    why = {"why": reasons[line.id]} if line.id in reasons else {}
    return orjson.dumps(job_as_dict(line) | why).decode()


def _line(line: "JobLine", reasons: Mapping[int, str]) -> str:
    age = "-" if line.changed_at is None else format_elapsed(time.time() - line.changed_at)
    details = [
        f"→ {without_credentials(line.target)}" if line.target else "",
        line.reason or "",
        f"{line.crashes} crashes" if line.crashes else "",
        f"waits {format_elapsed(line.wait)}" if line.wait else "",
        f"in {line.node}" if line.state == "TAKEN" else "",
        reasons.get(line.id, ""),
    ]
    notes = "; ".join(detail for detail in details if detail)
    text = f"{line.id:>8}  {line.state:<10}  {line.attempts:>5}  {age:>6}  {line.group:<12}  "
    return clean(text + without_credentials(line.url) + (f"  ({notes})" if notes else ""))
