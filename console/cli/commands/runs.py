"""The command `runs`: what was crawled in a data dir, run by run. Only looks."""

import time
from pathlib import Path
from typing import Any

import click
import orjson

from console.cli.commands.status import opened
from console.sanitize import clean
from engine.errors import UsageError, suggest
from engine.extract.context import fetched
from engine.store.db.connector import Database
from engine.store.read import history, snapshot
from engine.store.read.history import Past
from engine.store.read.snapshot import Snapshot
from engine.store.tables import runs

_NAMED = 10


def show_runs(data: Path, what: str, id_: str | None, *, count: int, as_json: bool) -> int:
    """List the newest runs, or show one of them (the latest, where none is named). Raises UsageError, StorageError."""
    if what == "list" and id_ is not None:
        raise UsageError(f"runs list {id_}: a list has no RUN", f"Write `crawl-console runs show {id_}`.")
    db = opened(data)
    if db is None:
        return _tell_nothing(data, what, as_json)
    try:
        if what == "list":
            found = history.listed(db, count)
            _tell({"runs": [_listed(past) for past in found]}, _table(found), as_json=as_json)
            return 0
        run = _run(db, id_)
        if run is None:
            return _tell_nothing(data, what, as_json)
        look = snapshot.read(db, run=run)
        _tell(snapshot.whole(look, exit_code=None), _shown(look), as_json=as_json)
        return 0
    finally:
        db.close()


def _tell_nothing(data: Path, what: str, as_json: bool) -> int:
    told = {"runs": []} if what == "list" else snapshot.whole(snapshot.NOTHING, exit_code=None)
    _tell(told, [f"{data}: no run yet; start one with `crawl-console run`"], as_json=as_json)
    return 0


def _tell(told: dict[str, Any], lines: list[str], *, as_json: bool) -> None:
    if as_json:
        click.echo(orjson.dumps(told))
        return
    for line in lines:
        click.echo(clean(line))


def _run(db: Database, id_: str | None) -> int | None:
    found = runs.latest(db) if id_ is None else runs.named(db, id_)
    if found is None and id_ is not None:
        known = runs.ids(db, _NAMED)
        raise UsageError(
            f"no run {id_}{suggest(id_, known)}", f"The latest are: {', '.join(known)}." if known else "There is none."
        )
    return found.seq if found else None


def _listed(past: Past) -> dict[str, Any]:
    return {
        "run": past.id, "state": past.state, "reason": past.reason, "begun": fetched(past.created_at),
        "ended": None if past.ended_at is None else fetched(past.ended_at), "seconds": round(past.seconds, 3),
        "done": past.done, "failed": past.failed, "rows": past.rows, "defs_version": past.defs_version,
    }  # fmt: skip


def _table(found: list[Past]) -> list[str]:
    if not found:
        return ["no run yet; start one with `crawl-console run`"]
    lines = [f"{'run':<8}{'begun':<18}{'state':<11}{'took':>9}{'pages':>10}{'failed':>8}{'rows':>11}  defs"]
    return lines + [
        f"{past.id:<8}{_moment(past.created_at):<18}{past.state:<11}{_took(past.seconds):>9}{past.done:>10,}"
        f"{past.failed:>8,}{past.rows:>11,}  v{past.defs_version}{f'  {past.reason}' if past.reason else ''}"
        for past in found
    ]


def _shown(look: Snapshot) -> list[str]:
    run = look.run
    assert run is not None
    reason = f" ({run.reason})" if run.reason else ""
    lines = [
        f"run {run.id}  {run.state}{reason}  begun {_moment(run.created_at)}, took {_took(run.seconds)},"
        f" defs v{run.defs_version}",
        ", ".join(f"{count} {name}" for name, count in look.jobs.items()),
    ]
    lines += [
        f"  {name}: {count} rows{f', {look.rejected[name]} rejected' if name in look.rejected else ''}"
        for name, count in look.rows.items()
    ]
    return lines + [f"  {a['name']}: {a['rows']} rows, {a['bytes']} bytes  {a['path']}" for a in look.appenders]


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _took(seconds: float) -> str:
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
