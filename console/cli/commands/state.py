"""The command `state`: shows which steps of a run are complete, and verifies what the complete ones have."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from console.cli.options import common_options, run_option, validate_assignments
from console.format import align_columns, format_date_time
from console.sanitize import clean

if TYPE_CHECKING:
    from engine.store.tables.run.checkpoints import Checkpoint

_HEADINGS = ("GROUP", "TASK", "STEP", "COMPLETE", "SINCE", "STATUS", "DEPENDS ON", "REASON")


@click.command()
@click.option(
    "--verify", is_flag=True, help="Compare documents, rows and files with the checkpoints of finished groups."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per step; with --verify, one for the run.")
@run_option
@common_options
def state(verify: bool, as_json: bool, run_id: str | None, data: Path, assign: Sequence[str]) -> int:
    """Show which steps of the run are complete, or verify what the complete ones have."""
    import orjson

    from console.client import find_run, open_database
    from engine.store.tables.run import checkpoints, runs
    from engine.supervise.checkpoints.state_file import read_state_records

    validate_assignments(assign)
    db = open_database(data)
    run, steps, records = None, [], []
    if db is not None:
        try:
            with db.snapshot():
                run = runs.latest(db) if run_id is None else find_run(db, run_id)
                steps = checkpoints.list_checkpoints(db, run.seq) if run else []
                records = read_state_records(db, run, steps) if run and as_json else []
        finally:
            db.close()
    if run is None:
        click.echo(f"{data}: no run yet: start one with `crawl-console run`", err=as_json)
        return 0
    if verify:
        from console.cli.verification import verify_run

        return verify_run(data, run.id, as_json=as_json)
    if as_json:
        for record in records:
            click.echo(orjson.dumps(record))
        return 0
    click.echo(f"run {run.id}  {run.state}")
    for line in align_columns([_HEADINGS, *map(_row, steps)]):
        click.echo(clean(line))
    return 0


def _row(c: "Checkpoint") -> tuple[str, ...]:
    since = format_date_time(c.completed_at) if c.completed_at else "-"
    dependencies = ", ".join(c.dependencies) or "-"
    return c.group, c.task or "-", c.step, "yes" if c.completed else "no", since, c.status, dependencies, c.reason or ""
