"""The command `export`: rows of the latest run, from the truth, whatever became of the files."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from console.client import open_latest_run
from engine.append.export import export as write_rows
from engine.append.export import export_sqlite
from engine.append.only_new import SeenRows
from engine.errors import StorageError, UsageError, suggest
from engine.model.definition import DataDef, Definitions
from engine.store.db.connector import Database
from engine.store.tables import runs, versions
from engine.store.tables.rowkeys import KEYS, RowKeys
from engine.store.tables.runs import Run
from engine.supervise.outputs import output_settings

_FORMAT_BY_SUFFIX = {".csv": "csv", ".jsonl": "jsonl", ".db": "sqlite", ".sqlite": "sqlite"}
_MAX_RUNS_LISTED = 5
_NO_RUN = 0


def export(data: Path, name: str | None, format_: str | None, output: Path | None, since: str | None = None) -> int:
    """Write rows to `output`, or to stdout; with `since` those that run, and all before it, did not have.

    Raises UsageError where it is unclear which rows, or where to.
    """
    format_ = format_ or _FORMAT_BY_SUFFIX.get(output.suffix.lower() if output else "", "csv")
    with contextlib.ExitStack() as stack:
        db, run = stack.enter_context(open_latest_run(data))
        with db.snapshot():
            if run.defs_version is None:
                raise UsageError(f"{data}: no run yet", "Run `crawl-console run` first.")
            chosen = _select_data_defs(versions.read(db, run.defs_version), name)
            if output is None and format_ == "sqlite":
                raise UsageError("a database cannot go to stdout", "Give -o FILE.db.")
            if output is None and len(chosen) > 1:
                names = ", ".join(d.name for d in chosen)
                raise UsageError(f"several dataDefs: {names}", "Name one of them, or give -o FILE.")
            seq, known = run.seq, None
            if since is not None:
                earlier = _find_run(db, since)
                if earlier.seq < run.seq:
                    known = stack.enter_context(_open_seen_rows(db, data, earlier, chosen))
                else:
                    seq = _NO_RUN  # nothing came later
            for data_def in chosen:
                _write_data_def(
                    db, seq, data_def, format_, _target(output, data_def, format_, alone=len(chosen) == 1), known
                )
    return 0


def _find_run(db: Database, id_: str) -> Run:
    found = runs.get_by_id(db, id_)
    if found is None:
        listed = runs.list_ids(db, _MAX_RUNS_LISTED)
        raise UsageError(f"unknown run '{id_}'{suggest(id_, listed)}", f"The latest are: {', '.join(listed)}.")
    return found


@contextlib.contextmanager
def _open_seen_rows(db: Database, data: Path, since: Run, chosen: Sequence[DataDef]) -> Iterator[SeenRows]:
    """The rows of that run and of all before it; learned beside a data dir that cannot be written."""
    with contextlib.ExitStack() as stack:
        try:
            keys = RowKeys(data / KEYS, db)
        except (StorageError, OSError):
            keys = RowKeys(Path(stack.enter_context(tempfile.TemporaryDirectory())) / KEYS, db)
        stack.callback(keys.close)
        known = SeenRows(db, keys, {data_def.name: data_def.key for data_def in chosen}, since.seq + 1)
        while not known.complete:
            known.step()
        yield known


def _select_data_defs(definitions: Definitions, name: str | None) -> list[DataDef]:
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


def _write_data_def(
    db: Database, run: int, data_def: DataDef, format_: str, target: Path | None, known: SeenRows | None
) -> None:
    told = output_settings(data_def)
    columns, joins = told["columns"], told["joins"]
    if target is None:
        write_rows(db, run, data_def.name, columns, joins, format_, sys.stdout.buffer, seen_rows=known)
        sys.stdout.flush()
        return
    try:
        if format_ == "sqlite":
            export_sqlite(db, run, data_def.name, columns, joins, target, seen_rows=known)
            return
        with target.open("wb") as file:
            write_rows(db, run, data_def.name, columns, joins, format_, file, seen_rows=known)
    except OSError as error:
        raise StorageError(f"{target}: {error.strerror}", "Choose another place with -o.") from error
