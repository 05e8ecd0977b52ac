"""The command `export`: rows of the latest run, from the truth, whatever became of the files."""

import sys
from pathlib import Path

from engine.append.export import export as write_rows
from engine.append.export import export_sqlite
from engine.errors import StorageError, UsageError, suggest
from engine.model.definition import DataDef, Definitions
from engine.store import runs, versions
from engine.store.connector import Database
from engine.store.runs import Run
from engine.store.schema import CRAWL
from engine.supervise.outputs import settings_of

_BY_ENDING = {".csv": "csv", ".jsonl": "jsonl", ".db": "sqlite", ".sqlite": "sqlite"}


def export(data: Path, name: str | None, format_: str | None, output: Path | None) -> int:
    """Write rows to `output`, or to stdout. Raises UsageError where it is unclear which rows, or where to."""
    format_ = format_ or _BY_ENDING.get(output.suffix.lower() if output else "", "csv")
    if not (data / CRAWL).exists():
        raise UsageError(f"{data}: nothing was crawled here", "Run `crawl-console run` first, or give --data.")
    db = Database.open(data / CRAWL, read_only=True)
    try:
        with db.snapshot():
            run = runs.latest(db)
            if run is None or run.defs_version is None:
                raise UsageError(f"{data}: no run yet", "Run `crawl-console run` first.")
            chosen = _chosen(versions.read(db, run.defs_version), name)
            if output is None and format_ == "sqlite":
                raise UsageError("a database cannot go to stdout", "Give -o FILE.db.")
            if output is None and len(chosen) > 1:
                names = ", ".join(d.name for d in chosen)
                raise UsageError(f"several dataDefs: {names}", "Name one of them, or give -o FILE.")
            for data_def in chosen:
                _write(db, run, data_def, format_, _target(output, data_def, format_, alone=len(chosen) == 1))
    finally:
        db.close()
    return 0


def _chosen(definitions: Definitions, name: str | None) -> list[DataDef]:
    known = [d for d in definitions.data_defs if d.fields]
    if name is None:
        return known
    found = definitions.data_def(name)
    if found is None:
        raise UsageError(f"unknown dataDef '{name}'{suggest(name, [d.name for d in known])}", "See the defs.")
    return [found]


def _target(output: Path | None, data_def: DataDef, format_: str, *, alone: bool) -> Path | None:
    if output is None or alone or format_ == "sqlite":
        return output
    return output.with_name(f"{output.stem}-{data_def.name}{output.suffix}")


def _write(db: Database, run: Run, data_def: DataDef, format_: str, target: Path | None) -> None:
    told = settings_of(data_def)
    columns, joins = told["columns"], told["joins"]
    if target is None:
        write_rows(db, run.seq, data_def.name, columns, joins, format_, sys.stdout.buffer)
        sys.stdout.flush()
        return
    try:
        if format_ == "sqlite":
            export_sqlite(db, run.seq, data_def.name, columns, joins, target)
            return
        with target.open("wb") as file:
            write_rows(db, run.seq, data_def.name, columns, joins, format_, file)
    except OSError as error:
        raise StorageError(f"{target}: {error.strerror}", "Choose another place with -o.") from error
