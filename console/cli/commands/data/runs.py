"""The command `runs`: lists the runs of a data dir, or shows one."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from console.cli.options import Number, common_options
from console.cli.output import write_json, write_lines
from console.format import format_clock, format_date_time, plural
from engine.errors import UsageError

if TYPE_CHECKING:
    from engine.store.read.history import PastRun
    from engine.store.read.snapshot import Snapshot
    from engine.store.tables.run.runs import Run


@click.command()
@click.argument("what", type=click.Choice(["list", "show"]), default="list")
@click.argument("run", required=False)
@click.option("--limit", type=Number(), default=20, show_default=True, metavar="N", help="At most N.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@common_options("data")
def runs(what: str, run: str | None, limit: int, as_json: bool, data: Path) -> int:
    """List the runs of the data directory, newest first, or show one."""
    from console.client import find_run, open_database
    from engine.store.read import history, snapshot
    from engine.store.tables.run.runs import latest

    if what == "list" and run is not None:
        raise UsageError(f"runs list {run}: `list` takes no RUN", f"Write `crawl-console runs show {run}`.")
    past_runs: list[PastRun] = []
    view = snapshot.EMPTY_SNAPSHOT
    db = open_database(data)
    if db is not None:
        try:
            if what == "list":
                past_runs = history.list_runs(db, limit)
            else:
                shown = latest(db) if run is None else find_run(db, run)
                view = snapshot.read(db, run=shown.seq) if shown is not None else view
        finally:
            db.close()
    if as_json:
        listed = {"runs": [_run_as_dict(past) for past in past_runs]}
        write_json(listed if what == "list" else snapshot.build_report(view, exit_code=None))
    elif past_runs:
        write_lines(*_table(past_runs))
    elif view.run is not None:
        write_lines(*_run_lines(view, view.run))
    else:
        write_lines(f"{data}: no run yet; start one with `crawl-console run`")
    return 0


def _run_as_dict(past: "PastRun") -> dict[str, Any]:
    from engine.extract.page.context import format_utc

    return {
        "run": past.id, "state": past.state, "reason": past.reason, "begun": format_utc(past.created_at),
        "ended": None if past.ended_at is None else format_utc(past.ended_at), "seconds": round(past.seconds, 3),
        "done": past.done, "failed": past.failed, "rows": past.rows, "defs_version": past.defs_version,
    }  # fmt: skip


def _table(past_runs: "list[PastRun]") -> list[str]:
    lines = [f"{'run':<8}{'started':<21}{'state':<11}{'duration':>9}{'pages':>10}{'failed':>8}{'rows':>11}  defs"]
    return lines + [
        f"{past.id:<8}{format_date_time(past.created_at):<21}{past.state:<11}{format_clock(past.seconds):>9}"
        f"{past.done:>10,}{past.failed:>8,}{past.rows:>11,}  v{past.defs_version}"
        f"{f'  {past.reason}' if past.reason else ''}"
        for past in past_runs
    ]


def _run_lines(view: "Snapshot", run: "Run") -> list[str]:
    reason = f" ({run.reason})" if run.reason else ""
    lines = [
        f"run {run.id}  {run.state}{reason}  started {format_date_time(run.created_at)},"
        f" duration {format_clock(run.seconds)}, defs v{run.defs_version}",
        ", ".join(f"{count} {name}" for name, count in view.jobs.items()),
    ]
    lines += [
        f"  {name}: {plural(count, 'row')}{f', {view.rejected[name]} rejected' if name in view.rejected else ''}"
        for name, count in view.rows.items()
    ]
    return lines + [f"  {a.name}: {plural(a.rows, 'row')}, {a.bytes} bytes  {a.path}" for a in view.appenders]
