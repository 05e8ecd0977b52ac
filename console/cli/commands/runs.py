"""The command `runs`: what was crawled in a data dir, run by run. Only looks."""

import time
from pathlib import Path
from typing import Any

import click
import orjson

from console.cli.commands.status import open_database
from console.sanitize import clean
from engine.errors import UsageError, suggest
from engine.extract.context import format_utc
from engine.store.db.connector import Database
from engine.store.read import history, snapshot
from engine.store.read.history import PastRun
from engine.store.read.snapshot import Snapshot
from engine.store.tables import runs

_MAX_RUNS_LISTED = 10


def show_runs(data: Path, what: str, id_: str | None, *, count: int, as_json: bool) -> int:
    """List the newest runs, or show one of them (the latest, where none is named). Raises UsageError, StorageError."""
    if what == "list" and id_ is not None:
        raise UsageError(f"runs list {id_}: a list has no RUN", f"Write `crawl-console runs show {id_}`.")
    db = open_database(data)
    if db is None:
        return _print_no_run(data, what, as_json)
    try:
        if what == "list":
            found = history.list_runs(db, count)
            _print_result({"runs": [_run_as_dict(past) for past in found]}, _table(found), as_json=as_json)
            return 0
        run = _find_run_seq(db, id_)
        if run is None:
            return _print_no_run(data, what, as_json)
        look = snapshot.read(db, run=run)
        _print_result(snapshot.build_report(look, exit_code=None), _run_lines(look), as_json=as_json)
        return 0
    finally:
        db.close()


def _print_no_run(data: Path, what: str, as_json: bool) -> int:
    told = {"runs": []} if what == "list" else snapshot.build_report(snapshot.EMPTY_SNAPSHOT, exit_code=None)
    _print_result(told, [f"{data}: no run yet; start one with `crawl-console run`"], as_json=as_json)
    return 0


def _print_result(told: dict[str, Any], lines: list[str], *, as_json: bool) -> None:
    if as_json:
        click.echo(orjson.dumps(told))
        return
    for line in lines:
        click.echo(clean(line))


def _find_run_seq(db: Database, id_: str | None) -> int | None:
    found = runs.latest(db) if id_ is None else runs.get_by_id(db, id_)
    if found is None and id_ is not None:
        known = runs.list_ids(db, _MAX_RUNS_LISTED)
        raise UsageError(
            f"no run {id_}{suggest(id_, known)}", f"The latest are: {', '.join(known)}." if known else "There is none."
        )
    return found.seq if found else None


def _run_as_dict(past: PastRun) -> dict[str, Any]:
    return {
        "run": past.id, "state": past.state, "reason": past.reason, "begun": format_utc(past.created_at),
        "ended": None if past.ended_at is None else format_utc(past.ended_at), "seconds": round(past.seconds, 3),
        "done": past.done, "failed": past.failed, "rows": past.rows, "defs_version": past.defs_version,
    }  # fmt: skip


def _table(found: list[PastRun]) -> list[str]:
    if not found:
        return ["no run yet; start one with `crawl-console run`"]
    lines = [f"{'run':<8}{'begun':<18}{'state':<11}{'took':>9}{'pages':>10}{'failed':>8}{'rows':>11}  defs"]
    return lines + [
        f"{past.id:<8}{_format_date(past.created_at):<18}{past.state:<11}{_format_duration(past.seconds):>9}{past.done:>10,}"
        f"{past.failed:>8,}{past.rows:>11,}  v{past.defs_version}{f'  {past.reason}' if past.reason else ''}"
        for past in found
    ]


def _run_lines(look: Snapshot) -> list[str]:
    run = look.run
    assert run is not None
    reason = f" ({run.reason})" if run.reason else ""
    lines = [
        f"run {run.id}  {run.state}{reason}  begun {_format_date(run.created_at)}, took {_format_duration(run.seconds)},"
        f" defs v{run.defs_version}",
        ", ".join(f"{count} {name}" for name, count in look.jobs.items()),
    ]
    lines += [
        f"  {name}: {count} rows{f', {look.rejected[name]} rejected' if name in look.rejected else ''}"
        for name, count in look.rows.items()
    ]
    return lines + [f"  {a.name}: {a.rows} rows, {a.bytes} bytes  {a.path}" for a in look.appenders]


def _format_date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _format_duration(seconds: float) -> str:
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
