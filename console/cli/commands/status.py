"""The command `status`: a look at a data dir, which never needs or disturbs a supervisor."""

from pathlib import Path
from typing import Any

import click
import orjson

from console.cli.run_report import report_lines
from console.format import plural
from console.sanitize import clean
from engine.errors import StorageError
from engine.runtime.beat_file import SUPERVISOR_BEAT, read_beat
from engine.runtime.process_identity import is_process_alive
from engine.store.db.connector import Database, has_no_wal
from engine.store.db.schema import CRAWL, has_schema
from engine.store.read import snapshot
from engine.store.read.snapshot import EMPTY_SNAPSHOT, Snapshot

_MAX_ENDED_NODES = 4
"""Of those that ended, where none is alive."""


def status(data: Path, *, as_json: bool) -> int:
    """Show the newest run. Raises StorageError on a data dir that cannot be read."""
    look = read_snapshot(data)
    alarm = supervisor_alarm(data, look)
    if as_json:
        click.echo(orjson.dumps(status_as_dict(look, alarm)))
        return 0
    for line in [f"ALARM: {alarm}"] * bool(alarm) + _lines(look):
        click.echo(clean(line))
    return 0


def read_snapshot(data: Path) -> Snapshot:
    """The snapshot of a data dir; of one that is not there, nothing. Raises StorageError."""
    db = open_database(data)
    if db is None:
        return EMPTY_SNAPSHOT
    try:
        return snapshot.read(db)
    finally:
        db.close()


def open_database(data: Path) -> Database | None:
    """The database of a data dir, to read; None where there is none yet. Raises StorageError."""
    path = data / CRAWL
    try:
        if not path.exists():
            if data.exists():
                next(data.iterdir(), None)
            return None
    except OSError as error:
        raise StorageError(f"{data}: {error.strerror}", "Mend its permissions, or use another --data.") from error
    db = Database.open(path, read_only=True, immutable=has_no_wal(path), busy_seconds=5)  # a look must not leave a log
    try:
        if has_schema(db):
            return db
    except BaseException:
        db.close()
        raise
    db.close()
    return None


def supervisor_pid(look: Snapshot) -> int | None:
    """The pid of the supervisor that is alive; None where there is none."""
    if look.epoch is None or not is_process_alive(look.epoch.identity):
        return None
    return int(look.epoch.identity.split(":")[1])


def supervisor_alarm(data: Path, look: Snapshot) -> str | None:
    """What the living supervisor is in trouble about, from its beat: no table need be writable for it."""
    if supervisor_pid(look) is None:
        return None
    beat = read_beat(data / "beats" / SUPERVISOR_BEAT)
    return beat.now or None if beat else None


def status_as_dict(look: Snapshot, alarm: str | None = None) -> dict[str, Any]:
    """The object of `status --json`."""
    pid = supervisor_pid(look)
    told = snapshot.build_report(look, exit_code=None)
    return {
        **told,
        "appenders": snapshot.rows_as_dicts(look.appenders),
        "nodes": snapshot.rows_as_dicts(look.nodes),
        "stage": look.run.stage if look.run else None,
        "supervisor": {"pid": pid} if pid else None,
        "paused": look.run.paused if look.run else None,
        "alarm": alarm,
        "sequences": snapshot.rows_as_dicts(look.sequences),
        "hosts": snapshot.rows_as_dicts(look.hosts),
        "rates": look.run.rates if look.run and pid else {"pages_per_s": 0.0, "rows_per_s": 0.0},
        "defs_problems": look.defs_problems,
        "metrics": look.metrics,
    }


def _lines(look: Snapshot) -> list[str]:
    run = look.run
    if run is None:
        return ["no run yet: start one with `crawl-console run`"]
    pid = supervisor_pid(look)
    owner = f"supervisor {pid}" if pid else "no supervisor"
    reason = f" ({run.reason})" if run.reason else ""
    paused = f"  PAUSED: {run.paused}" if run.paused else ""
    if look.paused_sequences and not run.paused:
        paused = f"  PAUSED: {plural(look.paused_sequences, 'sequence')}"
    jobs = ", ".join(f"{count} {name}" for name, count in look.jobs.items())
    lines = [f"run {run.id}  {run.state}{reason}  stage {run.stage}  defs v{run.defs_version}  {owner}{paused}", jobs]
    if look.reextraction is not None:
        worked, left = look.reextraction
        lines.append(f"re-extracting stored pages: {worked:,} done, {left:,} or more left")
    if look.defs_problems:
        lines.append("the defs on disk are not used:")
        lines += [f"  {p['file']}:{p['line']}:{p['col']}: {p['code']} {p['message']}" for p in look.defs_problems]
    if pid is None and run.state != "DONE":
        lines.append("`crawl-console run` goes on where it stopped")
    lines += [
        f"  {n.id:<5}{n.role:<15}{n.state:<11}{n.heart:<15}{n.done:>8} done {n.failed:>5} failed"
        for n in [n for n in look.nodes if n.pid] or look.nodes[-_MAX_ENDED_NODES:]
    ]
    lines += [
        f"  {s.group} on {s.host}: {s.ready} ready, {s.delayed} waiting, {s.taken} running,"
        f" {s.done} done, {s.failed} failed, {s.skipped} skipped,"
        f" {s.incomplete} incomplete{'  PAUSED' if s.paused else ''}"
        for s in look.sequences
    ]
    lines += [f"  {a.name}: {a.rows} rows, {a.bytes} bytes  {a.path}" for a in look.appenders]
    return lines + report_lines(look)
