"""The command `export`: writes rows of the latest run from the database, whatever became of its files."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from console.cli.options import common_options, validate_assignments
from engine.errors import StorageError, UsageError, suggest
from engine.model.output_type import OUTPUT_TYPES, output_type_for_suffix

if TYPE_CHECKING:
    from engine.append.only_new import SeenRows
    from engine.model.definition import DataDef, Definitions
    from engine.store.db.connector import Database
    from engine.store.tables.runs import Run

_MAX_RUNS_LISTED = 5
_NO_RUN = 0


@click.command()
@click.argument("data_def", required=False)
@click.option(
    "--format", "format_", type=click.Choice(list(OUTPUT_TYPES)), help="Default: by the suffix of -o, else csv."
)
@click.option("--since", metavar="RUN", help="Only rows that neither this run nor an earlier one has.")
@click.option("-o", "output", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of stdout.")
@common_options
def export(
    data_def: str | None, format_: str | None, since: str | None, output: Path | None, data: Path,
    assign: Sequence[str],
) -> int:  # fmt: skip
    """Write the rows of the latest run from the database, at any time."""
    from console.client import open_latest_run
    from engine.store.tables import versions

    validate_assignments(assign)
    output_type = output_type_for_suffix(output.suffix) if output else None
    format_ = format_ or (output_type.name if output_type else "csv")
    with contextlib.ExitStack() as stack:
        db, run = stack.enter_context(open_latest_run(data))
        with db.snapshot():
            if run.defs_version is None:
                raise UsageError(f"{data}: no run yet", "Run `crawl-console run` first.")
            selected = _select_data_defs(versions.read(db, run.defs_version), data_def)
            if output is None and format_ == "sqlite":
                raise UsageError("a database cannot go to stdout", "Give -o FILE.db.")
            if output is None and len(selected) > 1:
                names = ", ".join(d.name for d in selected)
                raise UsageError(f"several dataDefs: {names}", "Name one of them, or give -o FILE.")
            seq, seen = run.seq, None
            if since is not None:
                earlier = _find_run(db, since)
                if earlier.seq < run.seq:
                    seen = stack.enter_context(_open_seen_rows(db, data, earlier, selected))
                else:
                    seq = _NO_RUN  # no run is newer than that one
            for selected_def in selected:
                target = _target(output, selected_def, format_, alone=len(selected) == 1)
                _write_data_def(db, seq, selected_def, format_, target, seen)
    return 0


def _find_run(db: "Database", id_: str) -> "Run":
    from engine.store.tables import runs

    run = runs.get_by_id(db, id_)
    if run is None:
        latest = runs.list_ids(db, _MAX_RUNS_LISTED)
        raise UsageError(f"unknown run '{id_}'{suggest(id_, latest)}", f"The latest are: {', '.join(latest)}.")
    return run


@contextlib.contextmanager
def _open_seen_rows(db: "Database", data: Path, since: "Run", data_defs: "Sequence[DataDef]") -> "Iterator[SeenRows]":
    """The keys of the rows of that run and all earlier ones; in a temporary file where the data dir is read-only."""
    from engine.append.only_new import SeenRows
    from engine.store.tables.rowkeys import KEYS, RowKeys

    with contextlib.ExitStack() as stack:
        try:
            keys = RowKeys(data / KEYS, db)
        except (StorageError, OSError):
            keys = RowKeys(Path(stack.enter_context(tempfile.TemporaryDirectory())) / KEYS, db)
        stack.callback(keys.close)
        seen = SeenRows(db, keys, {data_def.name: data_def.key for data_def in data_defs}, since.seq + 1)
        while not seen.complete:
            seen.step()
        yield seen


def _select_data_defs(definitions: "Definitions", name: str | None) -> "list[DataDef]":
    with_fields = [d for d in definitions.data_defs if d.fields]
    if name is None:
        return with_fields
    data_def = definitions.data_def(name)
    if data_def is None:
        names = [d.name for d in with_fields]
        raise UsageError(f"unknown dataDef '{name}'{suggest(name, names)}", "Check its name in the defs.")
    return [data_def]


def _target(output: Path | None, data_def: "DataDef", format_: str, *, alone: bool) -> Path | None:
    if output is None or alone or format_ == "sqlite":
        return output
    return output.with_name(f"{output.stem}-{data_def.name}{output.suffix}")


def _write_data_def(
    db: "Database", run: int, data_def: "DataDef", format_: str, target: Path | None, seen: "SeenRows | None"
) -> None:
    from engine.append.export import export as write_rows
    from engine.append.export import export_sqlite
    from engine.supervise.outputs import output_settings

    settings = output_settings(data_def)
    columns, joins = settings["columns"], settings["joins"]
    if target is None:
        write_rows(db, run, data_def.name, columns, joins, format_, sys.stdout.buffer, seen_rows=seen)
        sys.stdout.flush()
        return
    try:
        if format_ == "sqlite":
            export_sqlite(db, run, data_def.name, columns, joins, target, seen_rows=seen)
            return
        with target.open("wb") as file:
            write_rows(db, run, data_def.name, columns, joins, format_, file, seen_rows=seen)
    except OSError as error:
        raise StorageError(f"{target}: {error.strerror}", "Choose another place with -o.") from error
