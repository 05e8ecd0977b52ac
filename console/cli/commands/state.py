"""The command `state`: which steps of the newest run are complete, and why others are not. Needs no supervisor."""

import time
from pathlib import Path

import click
import orjson

from console.cli.commands.status import open_database
from console.sanitize import clean
from engine.store.tables import checkpoints, runs
from engine.store.tables.checkpoints import Checkpoint

_HEADINGS = ("GROUP", "STEP", "COMPLETE", "SINCE", "STATUS", "RESTS ON", "REASON")


def state(data: Path, *, as_json: bool) -> int:
    """Show the checkpoints. Raises StorageError on a data dir that cannot be read."""
    db = open_database(data)
    run, found = None, []
    if db is not None:
        try:
            with db.snapshot():
                run = runs.latest(db)
                found = checkpoints.list_checkpoints(db, run.seq) if run else []
        finally:
            db.close()
    if run is None:
        click.echo(f"{data}: no run yet: start one with `crawl-console run`", err=as_json)
        return 0
    if as_json:
        for checkpoint in found:
            click.echo(orjson.dumps(checkpoints.to_state_record(checkpoint, run.id)))
        return 0
    click.echo(f"run {run.id}  {run.state}")
    for line in _table([_HEADINGS, *map(_row, found)]):
        click.echo(clean(line))
    return 0


def _row(c: Checkpoint) -> tuple[str, ...]:
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(c.completed_at)) if c.completed_at else "-"
    needs = ", ".join(c.dependencies) or "-"
    return c.group, c.step, "yes" if c.completed else "no", since, c.status, needs, c.reason or ""


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
