"""The command `runs`: lists the runs of a data dir, or shows one."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from console.cli.options import Number, common_options, validate_assignments
from console.format import format_clock, format_date_time, plural
from console.sanitize import clean

if TYPE_CHECKING:
    from engine.store.db.connector import Database
    from engine.store.read.history import PastRun
    from engine.store.read.snapshot import Snapshot

_MAX_RUNS_LISTED = 10


@click.command()
@click.argument("what", type=click.Choice(["list", "show"]), default="list")
@click.argument("run", required=False)
@click.option("--limit", type=Number(), default=20, show_default=True, metavar="N", help="At most N.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@common_options
def runs(what: str, run: str | None, limit: int, as_json: bool, data: Path, assign: Sequence[str]) -> int:
    """List the runs of the data directory, newest first, or show one."""
    from console.client import open_database
    from engine.errors import UsageError
    from engine.store.read import history, snapshot

    validate_assignments(assign)
    if what == "list" and run is not None:
        raise UsageError(f"runs list {run}: `list` takes no RUN", f"Write `crawl-console runs show {run}`.")
    db = open_database(data)
    if db is None:
        return _print_no_run(data, what, as_json)
    try:
        if what == "list":
            past_runs = history.list_runs(db, limit)
            _print_result({"runs": [_run_as_dict(past) for past in past_runs]}, _table(past_runs), as_json=as_json)
            return 0
        seq = _find_run_seq(db, run)
        if seq is None:
            return _print_no_run(data, what, as_json)
        view = snapshot.read(db, run=seq)
        _print_result(snapshot.build_report(view, exit_code=None), _run_lines(view), as_json=as_json)
        return 0
    finally:
        db.close()


def _print_no_run(data: Path, what: str, as_json: bool) -> int:
    from engine.store.read.snapshot import EMPTY_SNAPSHOT, build_report

    result = {"runs": []} if what == "list" else build_report(EMPTY_SNAPSHOT, exit_code=None)
    _print_result(result, [f"{data}: no run yet; start one with `crawl-console run`"], as_json=as_json)
    return 0


def _print_result(result: dict[str, Any], lines: list[str], *, as_json: bool) -> None:
    import orjson

    if as_json:
        click.echo(orjson.dumps(result))
        return
    for line in lines:
        click.echo(clean(line))


def _find_run_seq(db: "Database", id_: str | None) -> int | None:
    from engine.errors import UsageError, suggest
    from engine.store.tables.run import runs

    run = runs.latest(db) if id_ is None else runs.get_by_id(db, id_)
    if run is None and id_ is not None:
        latest = runs.list_ids(db, _MAX_RUNS_LISTED)
        raise UsageError(
            f"no run {id_}{suggest(id_, latest)}",
            f"The latest are: {', '.join(latest)}." if latest else "There is no run yet.",
        )
    return run.seq if run else None


def _run_as_dict(past: "PastRun") -> dict[str, Any]:
    from engine.extract.page.context import format_utc

    return {
        "run": past.id, "state": past.state, "reason": past.reason, "begun": format_utc(past.created_at),
        "ended": None if past.ended_at is None else format_utc(past.ended_at), "seconds": round(past.seconds, 3),
        "done": past.done, "failed": past.failed, "rows": past.rows, "defs_version": past.defs_version,
    }  # fmt: skip


def _table(past_runs: "list[PastRun]") -> list[str]:
    if not past_runs:
        return ["no run yet; start one with `crawl-console run`"]
    lines = [f"{'run':<8}{'started':<21}{'state':<11}{'duration':>9}{'pages':>10}{'failed':>8}{'rows':>11}  defs"]
    return lines + [
        f"{past.id:<8}{format_date_time(past.created_at):<21}{past.state:<11}{format_clock(past.seconds):>9}"
        f"{past.done:>10,}{past.failed:>8,}{past.rows:>11,}  v{past.defs_version}"
        f"{f'  {past.reason}' if past.reason else ''}"
        for past in past_runs
    ]


def _run_lines(view: "Snapshot") -> list[str]:
    run = view.run
    assert run is not None
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
