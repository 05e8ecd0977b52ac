"""The lines of `status --all`: the latest run of several data dirs, one line each."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from console.cli.output import write_json, write_lines
from console.format import align_columns, format_count, format_date_time, format_eta, format_rate
from engine.errors import CrawlError, StorageError, one_line
from engine.model.run import NO_ETA, Eta

_HEADINGS = ("DATA", "RUN", "STATE", "DONE", "READY", "FAILED", "PAGES/S", "ROWS", "END", "ALARMS")
_NUMBERS = ("done", "ready", "failed", "rows", "alarms")


def print_data_dirs(folders: Sequence[Path], *, as_json: bool) -> int:
    """Print a line for each data dir; returns 3 if one cannot be read, else 0."""
    lines = [_read_line(folder) for folder in folders]
    if as_json:
        write_json(*lines)
    else:
        write_lines(*_table(lines))
    return 3 if any(line["error"] for line in lines) else 0


def _read_line(folder: Path) -> dict[str, Any]:
    """The object of `status --all --json`."""
    line: dict[str, Any] = {
        "data": str(folder), "run": None, "state": None, "supervisor": None, **dict.fromkeys(_NUMBERS, 0),
        "pages_per_s": 0.0, "eta": asdict(NO_ETA), "ended": None, "error": None,
    }  # fmt: skip
    try:
        if not folder.exists():
            raise StorageError(f"{folder}: no such directory", "")
        return line | _read_run(folder)
    except (CrawlError, OSError) as error:
        text = error.message if isinstance(error, CrawlError) else f"{folder}: {error.strerror}"
        return line | {"error": one_line(text.removeprefix(f"{folder}: "))}


def _read_run(folder: Path) -> dict[str, Any]:
    """What is known of the latest run; empty without one."""
    from console.client import end_orphans, list_alarms, open_database, supervisor_alarm, supervisor_pid
    from engine.judge.rates import speed_of
    from engine.store.read import history, snapshot

    db = open_database(folder)
    if db is None:
        return {}
    try:
        view, listed = snapshot.read(db), history.list_runs(db, 2)
    finally:
        db.close()
    run, pid = view.run, supervisor_pid(view)
    if run is None:
        return {}
    past = next(one for one in listed if one.seq == run.seq)  # a new run may have begun meanwhile
    if pid is None:
        view = end_orphans(view)
    alarms = list_alarms(view, supervisor_alarm(folder, view))
    return {
        "run": run.id, "state": run.state, "supervisor": {"pid": pid} if pid else None,
        **{name: view.jobs[name] for name in ("done", "ready", "failed")},
        "pages_per_s": speed_of(view, is_live=pid is not None).pages_per_s, "rows": view.row_count,
        "eta": asdict(run.eta if pid else NO_ETA), "ended": None if pid else past.ended_at,
        "alarms": len(alarms),
    }  # fmt: skip


def _table(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Aligned lines; the error of a data dir that cannot be read stands behind its name."""
    shown = align_columns([_HEADINGS, *([line["data"], *_cells(line)] for line in lines)])
    width = max(len(line["data"]) for line in lines)
    yield shown[0]
    for line, text in zip(lines, shown[1:], strict=True):
        yield f"{line['data']:<{width}}  error: {line['error']}" if line["error"] else text


def _cells(line: dict[str, Any]) -> list[str]:
    if line["error"] or line["run"] is None:
        return ["-", "no run yet", *[""] * (len(_HEADINGS) - 3)]
    if line["supervisor"]:
        end = f"ETA {format_eta(Eta(**line['eta']))}"
    else:
        end = format_date_time(line["ended"])[:16] if line["ended"] else "no supervisor"
    return [
        line["run"], line["state"], *(format_count(line[name]) for name in ("done", "ready", "failed")),
        format_rate(line["pages_per_s"]), format_count(line["rows"]), end, str(line["alarms"] or ""),
    ]  # fmt: skip
