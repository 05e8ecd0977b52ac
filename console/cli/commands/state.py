"""The command `state`: shows which steps of a run are complete, and why others are not."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from console.cli.options import common_options, run_option, validate_assignments
from console.format import format_date_time
from console.sanitize import clean

if TYPE_CHECKING:
    from engine.store.tables.checkpoints import Checkpoint

_HEADINGS = ("GROUP", "STEP", "COMPLETE", "SINCE", "STATUS", "DEPENDS ON", "REASON")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per step.")
@run_option
@common_options
def state(as_json: bool, run_id: str | None, data: Path, assign: Sequence[str]) -> int:
    """Show which steps of the run are complete."""
    import orjson

    from console.client import find_run, open_database
    from engine.store.tables import checkpoints, runs

    validate_assignments(assign)
    db = open_database(data)
    run, steps = None, []
    if db is not None:
        try:
            with db.snapshot():
                run = runs.latest(db) if run_id is None else find_run(db, run_id)
                steps = checkpoints.list_checkpoints(db, run.seq) if run else []
        finally:
            db.close()
    if run is None:
        click.echo(f"{data}: no run yet: start one with `crawl-console run`", err=as_json)
        return 0
    if as_json:
        for step in steps:
            click.echo(orjson.dumps(checkpoints.to_state_record(step, run.id)))
        return 0
    click.echo(f"run {run.id}  {run.state}")
    for line in _table([_HEADINGS, *map(_row, steps)]):
        click.echo(clean(line))
    return 0


def _row(c: "Checkpoint") -> tuple[str, ...]:
    since = format_date_time(c.completed_at) if c.completed_at else "-"
    dependencies = ", ".join(c.dependencies) or "-"
    return c.group, c.step, "yes" if c.completed else "no", since, c.status, dependencies, c.reason or ""


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
