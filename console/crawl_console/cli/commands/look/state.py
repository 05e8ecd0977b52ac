"""The command `state`: shows which steps of a run are complete, and verifies them."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawl_console.cli.options import common_options, run_option
from crawl_console.cli.output import write_json, write_lines, write_stderr
from crawl_console.format import align_columns, format_date_time

if TYPE_CHECKING:
    from crawl_engine.store.tables.run.checkpoints import Checkpoint

_HEADINGS = ("GROUP", "TASK", "STEP", "COMPLETE", "SINCE", "STATUS", "DEPENDS ON", "REASON")


@click.command()
@click.option(
    "--verify", is_flag=True, help="Compare documents, rows and files with the checkpoints of finished groups."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per step; with --verify, one for the run.")
@run_option
@common_options("data")
def state(verify: bool, as_json: bool, run_id: str | None, data: Path) -> int:
    """Show which steps of the run are complete, or verify what the complete ones have."""
    from crawl_console.client import find_run, open_database
    from crawl_engine.store.tables.run import checkpoints, runs
    from crawl_engine.supervise.checkpoints.state_file import read_state_records

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
        no_run = f"{data}: no run yet: start one with `crawl-console run`"
        (write_stderr if as_json else write_lines)(no_run)
        return 0
    if verify:
        from crawl_console.cli.verification import verify_run

        return verify_run(data, run.id, as_json=as_json)
    if as_json:
        write_json(*records)
    else:
        write_lines(f"run {run.id}  {run.state}", *align_columns([_HEADINGS, *map(_row, steps)]))
    return 0


def _row(c: "Checkpoint") -> tuple[str, ...]:
    since = format_date_time(c.completed_at) if c.completed_at else "-"
    dependencies = ", ".join(c.dependencies) or "-"
    return c.group, c.task or "-", c.step, "yes" if c.completed else "no", since, c.status, dependencies, c.reason or ""
