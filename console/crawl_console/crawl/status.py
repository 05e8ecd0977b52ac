"""The latest run of a data dir as JSON: the whole of it, or one line among several data dirs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import asdict

from crawl_console import client
from crawl_console.crawl.servers import ServerRow
from crawl_engine.errors import CrawlError, StorageError, one_line
from crawl_engine.judge.rates import speed_of
from crawl_engine.judge.remaining import progress_of
from crawl_engine.judge.run_verdict import NO_RUN, verdict_of
from crawl_engine.judge.summary import build_report
from crawl_engine.model.run import NO_ETA, NO_JUDGEMENT
from crawl_engine.store.read.snapshot import Snapshot
from crawl_engine.store.tables.run.events import Event

_NUMBERS = ("done", "ready", "failed", "rows", "alarms")


def status_as_dict(view: Snapshot, alarm: str | None = None, servers: Sequence[ServerRow] = ()) -> dict[str, Any]:
    """The object of `status --json`."""
    pid = client.supervisor_pid(view)
    judgement = view.run.judgement if view.run else NO_JUDGEMENT
    return {
        **build_report(view, exit_code=None),
        "verdict": asdict(verdict_of(view, is_live=pid is not None)),
        "appenders": [asdict(row) for row in view.appenders],
        "nodes": [to_builtins(row) for row in view.nodes],
        "stage": view.run.stage if view.run else None,
        "reason": view.run.reason if view.run else None,
        "supervisor": {"pid": pid} if pid else None,
        "machines": [asdict(row) for row in view.machines],
        "helpers": [
            {"name": one.name, "state": one.state, "pid": one.pid, "restarts": one.restarts} for one in view.helpers
        ]
        if pid
        else [],
        "paused": view.run.paused if view.run else None,
        "paused_by": view.paused_by,
        "alarm": alarm,
        "running": view.running,
        "bad_answers": view.bad_answers,
        "gone": view.gone,
        "blocked": view.blocked,
        "alarms": [one.as_dict() for one in client.list_alarms(view, alarm)],
        "sequences": [asdict(row) for row in view.sequences],
        "hosts": [asdict(row) for row in view.hosts],
        "files": view.files,
        "waiting_rows": view.waiting_rows,
        "eta": asdict(view.run.eta if view.run and pid else NO_ETA),
        "rates": (judgement if pid else NO_JUDGEMENT).rates,
        "progress": asdict(progress_of(view, is_live=pid is not None)),
        "host_states": {group.state.value: {"count": group.count, "names": group.names} for group in judgement.hosts},
        "seeding": view.seeding.as_dict() if view.seeding else None,
        "defs_problems": view.defs_problems,
        "defs_saved": view.defs_saved if pid else None,
        "metrics": view.metrics,
        "servers": [asdict(server) | {"clients": [asdict(one) for one in server.clients]} for server in servers],
    }


def empty_line(data: Path, error: str | None = None) -> dict[str, Any]:
    """The object of `status --all --json` for a data dir without a run, or one that cannot be read."""
    return {
        "data": str(data), "run": None, "state": None, "supervisor": None, **dict.fromkeys(_NUMBERS, 0),
        "pages_per_s": 0.0, "eta": asdict(NO_ETA), "ended": None, "error": error, "verdict": asdict(NO_RUN),
    }  # fmt: skip


def line_of(data: Path, view: Snapshot, ended: float | None, alarm: str | None) -> dict[str, Any]:
    """The same for the newest run. `ended`: when it ended, wall clock; `alarm`: that of the supervisor's beat."""
    run, pid = view.run, client.supervisor_pid(view)
    if run is None:
        return empty_line(data)
    return empty_line(data) | {
        "run": run.id, "state": run.state, "supervisor": {"pid": pid} if pid else None,
        **{name: view.jobs[name] for name in ("done", "ready", "failed")},
        "pages_per_s": speed_of(view, is_live=pid is not None).pages_per_s, "rows": view.row_count,
        "eta": asdict(run.eta if pid else NO_ETA), "ended": None if pid else ended,
        "alarms": len(client.list_alarms(view, alarm)),
        "verdict": asdict(verdict_of(view, is_live=pid is not None)),
    }  # fmt: skip


def describe_unreadable(data: Path, error: Exception) -> str:
    """Why a data dir cannot be read, in one line behind its name."""
    text = error.message if isinstance(error, CrawlError) else str(getattr(error, "strerror", None) or error)
    return one_line(text.removeprefix(f"{data}: "))


def require_folder(data: Path) -> None:
    """Raise StorageError if there is no data dir."""
    if not data.exists():
        raise StorageError(f"{data}: no such directory", "")


def event_as_dict(id_: int, event: Event) -> dict[str, Any]:
    """An event as `events --json` prints it."""
    return {"id": id_, **asdict(event)}
