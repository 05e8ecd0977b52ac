"""The command `runs`: lists the runs of a data dir, shows one, and deletes some."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from crawl_console.cli.options import LIMIT_NAMES, Number, common_options, complete_names, limit_options
from crawl_console.cli.output import confirm, write_json, write_lines, write_stderr
from crawl_console.cli.tidy import check_deletable, delete_runs, describe_size, try_lock
from crawl_console.format import format_clock, format_date_time, plural
from crawl_engine.errors import UsageError, megabytes
from crawl_engine.model.run import Limits

if TYPE_CHECKING:
    from crawl_engine.judge.run_verdict import RunVerdict
    from crawl_engine.store.db.connector import Database
    from crawl_engine.store.read.history import PastRun
    from crawl_engine.store.read.snapshot import Snapshot
    from crawl_engine.store.tables.run.runs import Run
    from crawl_engine.supervise.retention.choice import RunSize

_DEFAULT_LIMIT = 20


@click.command()
@click.argument("what", type=click.Choice(["list", "show", "delete", "prune"]), default="list")
@click.argument("run_ids", metavar="[RUN]...", nargs=-1, shell_complete=complete_names("run"))
@click.option("--limit", type=Number(), metavar="N", help=f"List at most N; default: {_DEFAULT_LIMIT}.")
@limit_options
@click.option("--force", is_flag=True, help="Delete RUN even if it is unfinished.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@common_options("data", "assigned")
def runs(
    what: str, run_ids: Sequence[str], limit: int | None, limits: Limits, force: bool, yes: bool, as_json: bool,
    data: Path, assigned: dict[str, str],
) -> int:  # fmt: skip
    """List the runs of the data directory, newest first, show one, or delete some.

    `delete` takes RUNs or a limit, `prune` a limit, else those of the settings keep_runs and max_data. The last DONE
    run and the unfinished one are never chosen by a limit.
    """
    if what in ("list", "show"):
        if force or yes or not limits.is_empty:
            raise UsageError(f"runs {what}: limits, --force and --yes have no effect", "Use them with `runs delete`.")
        return _look(what, run_ids, limit, as_json, data)
    if limit is not None:
        raise UsageError(f"runs {what}: --limit has no effect", f"Give {LIMIT_NAMES}.")
    if run_ids and what == "prune":
        raise UsageError(f"runs prune {run_ids[0]}: `prune` takes no RUN", f"Write `runs delete {run_ids[0]}`.")
    if run_ids and not limits.is_empty:
        raise UsageError("runs delete: both RUN and a limit", "Name the runs, or give a limit.")
    if force and not run_ids:
        raise UsageError(f"runs {what}: --force without RUN", "A limit never chooses an unfinished run; name it.")
    if limits.is_empty and what == "prune":
        limits = _limits_of_settings(assigned)
    elif limits.is_empty and not run_ids:
        raise UsageError("runs delete: neither RUN nor a limit", f"Name the runs, or give {LIMIT_NAMES}.")
    return _delete(what, run_ids, limits, as_json, data, force=force, yes=yes)


def _look(what: str, run_ids: Sequence[str], limit: int | None, as_json: bool, data: Path) -> int:
    from crawl_console.client import find_run, open_database
    from crawl_engine.judge.summary import build_report
    from crawl_engine.store.read import history, snapshot
    from crawl_engine.store.tables.run.runs import latest

    run = run_ids[0] if run_ids else None
    if what == "list" and run is not None:
        raise UsageError(f"runs list {run}: `list` takes no RUN", f"Write `crawl-console runs show {run}`.")
    if len(run_ids) > 1:
        raise UsageError(f"runs show: {len(run_ids)} RUNs", "Name one run.")
    past_runs: list[tuple[PastRun, RunVerdict]] = []
    view = snapshot.EMPTY_SNAPSHOT
    db = open_database(data)
    if db is not None:
        with contextlib.closing(db):
            if what == "list":
                past_runs = list(judge_runs(db, history.list_runs(db, limit or _DEFAULT_LIMIT)))
            else:
                shown = latest(db) if run is None else find_run(db, run)
                view = snapshot.read(db, run=shown.seq) if shown is not None else view
    if as_json:
        listed = {"runs": [run_as_dict(past, verdict) for past, verdict in past_runs]}
        write_json(listed if what == "list" else build_report(view, exit_code=None))
    elif past_runs:
        write_lines(*_table(past_runs))
    elif view.run is not None:
        write_lines(*_run_lines(view, view.run))
    else:
        write_lines(f"{data}: no run yet; start one with `crawl-console run`")
    return 0


def _limits_of_settings(assigned: dict[str, str]) -> Limits:
    from crawl_engine.settings import load_settings

    settings = load_settings(assigned)
    limits = Limits(keep=settings.keep_runs, max_bytes=settings.max_data)
    if limits.is_empty:
        raise UsageError("runs prune: no limit", f"Give {LIMIT_NAMES}, or set keep_runs or max_data in crawl.toml.")
    return limits


def _delete(
    what: str, run_ids: Sequence[str], limits: Limits, as_json: bool, data: Path, *, force: bool, yes: bool
) -> int:
    """Show what goes, ask, delete it. A limit of bytes is measured again after each deletion."""
    from crawl_console.client import require_database_path
    from crawl_engine.store.db.connector import connect
    from crawl_engine.supervise.retention.choice import choose_runs, measure_bytes

    path = require_database_path(data)
    before, deleted, rows, deferred = measure_bytes(data), list[str](), 0, False
    with contextlib.closing(connect(path)) as db:
        while chosen := _named_runs(db, data, run_ids) if run_ids else choose_runs(db, data, limits, time.time()):
            with try_lock(data) as lock:
                for size in chosen:
                    check_deletable(db, size.past.seq, size.past.id, force=force, locked=lock is not None)
            lines = [f"{plural(len(chosen), 'run')} to delete, with the pages that no other run needs:"]
            if not confirm(f"runs {what}", [*lines, *map(describe_size, chosen)], yes=yes):
                return 130
            with try_lock(data) as lock:
                delete_runs(db, data, chosen, force=force, locked=lock is not None, shown=not as_json)
                deferred = lock is None
            deleted += [size.past.id for size in chosen]
            rows += sum(size.past.rows for size in chosen)
            if limits.max_bytes is None or deferred:
                break
        if not deleted:
            _finish_left(db, data)
    after = measure_bytes(data)
    if as_json:
        write_json({"deleted": deleted, "rows": rows, "bytes_before": before, "bytes_after": after})
    else:
        write_lines(f"{plural(len(deleted), 'run')} deleted: {megabytes(before)} → {megabytes(after)}")
    if deferred:
        write_stderr(
            "another process holds the data directory: stored pages that no run needs go when a crawl ends or starts"
        )
    elif limits.max_bytes is not None and after > limits.max_bytes:
        write_stderr(f"more than {megabytes(limits.max_bytes)} are left, and no other run may go")
    return 0


def _finish_left(db: "Database", data: Path) -> None:
    """Finish deletions that a kill cut short, unless a supervisor does."""
    with try_lock(data) as lock:
        if lock is not None:
            delete_runs(db, data, [], force=False, locked=True, shown=False)


def _named_runs(db: "Database", data: Path, run_ids: Sequence[str]) -> "list[RunSize]":
    """The runs of these ids. Raises UsageError for an unknown one."""
    from crawl_console.client import find_run
    from crawl_engine.store.read.history import list_runs
    from crawl_engine.supervise.retention.choice import measure_runs

    wanted = {find_run(db, id_).seq for id_ in run_ids}
    return measure_runs(db, data, [past for past in reversed(list_runs(db)) if past.seq in wanted])


def judge_runs(db: "Database", past_runs: "Sequence[PastRun]") -> "Iterator[tuple[PastRun, RunVerdict]]":
    """Each run with how it is, or how it ended. `past_runs`: the newest ones, the newest first."""
    from crawl_console.client import has_supervisor
    from crawl_engine.judge.run_verdict import judge_run
    from crawl_engine.store.read.history import read_shortfall

    for number, past in enumerate(past_runs):
        yield past, judge_run(past, read_shortfall(db, past), is_live=number == 0 and has_supervisor(db))


def run_as_dict(past: "PastRun", verdict: "RunVerdict") -> dict[str, Any]:
    from crawl_engine.extract.page.context import format_utc

    return {
        "run": past.id, "state": past.state, "reason": past.reason, "begun": format_utc(past.created_at),
        "ended": None if past.ended_at is None else format_utc(past.ended_at), "seconds": round(past.seconds, 3),
        "done": past.done, "failed": past.failed, "rows": past.rows, "defs_version": past.defs_version,
        "exit_code": past.exit_code, "verdict": asdict(verdict),
    }  # fmt: skip


def _table(past_runs: "list[tuple[PastRun, RunVerdict]]") -> list[str]:
    lines = [f"{'run':<8}{'started':<21}{'state':<16}{'duration':>9}{'pages':>10}{'failed':>8}{'rows':>11}  defs"]
    return lines + [
        f"{past.id:<8}{format_date_time(past.created_at):<21}{verdict.word:<16}{format_clock(past.seconds):>9}"
        f"{past.done:>10,}{past.failed:>8,}{past.rows:>11,}  v{past.defs_version}"
        f"{f'  {past.reason}' if past.reason else ''}"
        for past, verdict in past_runs
    ]


def _run_lines(view: "Snapshot", run: "Run") -> list[str]:
    from crawl_engine.judge.run_verdict import verdict_of

    verdict = verdict_of(view, is_live=view.is_live)
    lines = [
        f"run {run.id}  {verdict.text}  started {format_date_time(run.created_at)},"
        f" duration {format_clock(run.seconds)}, defs v{run.defs_version}",
        ", ".join(f"{count} {name}" for name, count in view.jobs.items()),
    ]
    lines += [
        f"  {name}: {plural(count, 'row')}{f', {view.rejected[name]} rejected' if name in view.rejected else ''}"
        for name, count in view.rows.items()
    ]
    return lines + [f"  {a.name}: {plural(a.rows, 'row')}, {a.bytes} bytes  {a.path}" for a in view.appenders]
