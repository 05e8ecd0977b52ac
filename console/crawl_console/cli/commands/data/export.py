"""The command `export`: writes the rows of a run from the database."""

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
from msgspec import Struct
from msgspec.structs import replace

from crawl_console.cli.options import FilePath, common_options, complete_names, run_option
from crawl_console.cli.output import open_stdout, write_stderr
from crawl_console.cli.server_export import export_to_server
from crawl_console.cli.warc_export import WARC, export_warc, is_warc
from crawl_engine.errors import StorageError, UsageError, suggest
from crawl_engine.model.output_type import (
    DATABASE_URL_STARTS,
    OUTPUT_TYPES,
    POSTGRESQL,
    SCOOPI,
    can_delimit,
    compression_of,
    default_delimiter,
    describe_suffixes,
    file_of_data_def,
    is_shared_file,
    output_type_of,
)
from crawl_engine.runtime.extras import require_extra_of

if TYPE_CHECKING:
    from crawl_engine.append.loop.only_new import SeenRows
    from crawl_engine.model.definition import DataDef, Definitions
    from crawl_engine.store.db.connector import Database
    from crawl_engine.store.tables.output.outputs import Output
    from crawl_engine.store.tables.run.runs import Run

_NO_RUN = 0


@click.command()
@click.argument("data_def", required=False, shell_complete=complete_names("data_def"))
@click.option(
    "--format",
    "format_",
    type=click.Choice([*OUTPUT_TYPES, POSTGRESQL, WARC]),
    help="Default: by the suffix of -o, else csv.",
)
@click.option("--changes", is_flag=True, help="What was added, changed or vanished since the run before.")
@click.option(
    "--since",
    metavar="RUN",
    shell_complete=complete_names("run"),
    help="Only rows that neither this run nor an earlier one has; with --changes: compare with this run.",
)
@click.option("--escape-formulas", is_flag=True, help="In CSV, put a ' before text that a spreadsheet would evaluate.")
@click.option("--bom", is_flag=True, help="Begin CSV with a byte order mark: Excel then knows that it is UTF-8.")
@click.option("--delimiter", metavar="C", help="The character between the values of CSV; default a comma.")
@click.option(
    "-o", "output", type=FilePath(DATABASE_URL_STARTS, allow_dash=True, dir_okay=False),
    help="A file; - is stdout; or a postgresql:// URL.",
)  # fmt: skip
@run_option
@common_options("data")
def export(
    data_def: str | None, format_: str | None, changes: bool, since: str | None, escape_formulas: bool,
    bom: bool, delimiter: str | None, output: Path | str | None, run_id: str | None, data: Path,
) -> int:  # fmt: skip
    """Write the rows of a run from the database, at any time."""
    from crawl_console.client import find_run, open_latest_run
    from crawl_engine.append.export import rewrite_output
    from crawl_engine.store.tables.run import versions

    others = {"--since": since, "--escape-formulas": escape_formulas, "--bom": bom, "--delimiter": delimiter}
    if isinstance(output, str) or format_ == POSTGRESQL:
        select = partial(_select_data_defs, name=data_def, tables=False)
        return export_to_server(data, run_id, output, format_, select, **{"--changes": changes}, **others)
    if output is not None and str(output) == "-":
        output = None
    if is_warc(output, format_):
        return export_warc(data, run_id, output, DATADEF=data_def, **{"--changes": changes}, **others)
    format_ = _choose_format(output, format_)
    require_extra_of(format_, f"the format {format_}")
    csv_options = _csv_options(escape_formulas=escape_formulas, bom=bom, delimiter=delimiter)
    for name in csv_options if format_ != "csv" else ():
        raise UsageError(
            f"--{name.replace('_', '-')} has no effect with {format_}", "Use it with CSV, or leave it out."
        )
    compression = compression_of(output) if output is not None else None
    if compression is not None and not OUTPUT_TYPES[format_].compressible:
        raise UsageError(f"-o {output}: {format_} files are not compressed", "Omit its last ending.")
    options = csv_options | ({"compression": compression} if compression is not None else {})
    if changes and format_ not in ("csv", "jsonl"):
        raise UsageError(f"--changes cannot be written as {format_}", "Use csv or jsonl.")
    with contextlib.ExitStack() as stack:
        db, run = stack.enter_context(open_latest_run(data, run_id=run_id))
        stack.enter_context(db.snapshot())
        if run.defs_version is None:
            raise UsageError(f"{data}: no run yet", "Run `crawl-console run` first.")
        definitions = versions.read(db, run.defs_version)
        selected = _select_data_defs(definitions, data_def, tables=format_ == SCOOPI)
        if output is None and is_shared_file(format_):
            raise UsageError("a database cannot go to stdout", f"Give -o FILE.{OUTPUT_TYPES[format_].suffixes[0]}.")
        if output is None and len(selected) > 1 and format_ != SCOOPI:
            names = ", ".join(d.name for d in selected)
            raise UsageError(f"several dataDefs: {names}", "Name one of them, or give -o FILE.")
        write: Callable[[DataDef, BinaryIO], None]
        rows = None
        if changes:
            from crawl_console.cli.change_export import ChangeExport

            write = ChangeExport(
                db=db, run=run, since=since, format=format_, csv_options=csv_options, compression=compression
            ).write
        else:
            seq, seen = run.seq, None
            if since is not None:
                earlier = find_run(db, since)
                if earlier.seq < run.seq:
                    seen = stack.enter_context(_open_seen_rows(db, data, earlier, selected))
                else:
                    seq = _NO_RUN  # no run is newer
            rows = _RowExport(db, seq, seen, format_, options)
            write = rows.write
        if output is None:
            for each in selected:
                write(each, open_stdout())
                sys.stdout.flush()
            return 0
        try:
            own = None
            if rows is not None and since is None and not csv_options and len(selected) == 1:
                own = _find_own_output(db, data, run, selected[0].name, format_, output)
            if own is not None:
                rewrite_output(db, data, run, own)
            elif rows is not None and is_shared_file(format_):
                rows.write_database(output, selected)
            else:
                _write_files(output, selected, write)
        except OSError as error:
            raise StorageError(f"{output}: {error.strerror}", "Choose another place with -o.") from error
    return 0


def _csv_options(*, escape_formulas: bool, bom: bool, delimiter: str | None) -> dict[str, Any]:
    """The settings that flags change. Raises UsageError."""
    written = "\t" if delimiter == "\\t" else delimiter
    if written is not None and not can_delimit(written):
        raise UsageError(f"--delimiter {delimiter!r}: not one character, other than a quote", "Use , or ; or \\t.")
    given = {"escape_formulas": escape_formulas or None, "bom": bom or None, "delimiter": written}
    return {name: value for name, value in given.items() if value is not None}


def _find_own_output(
    db: "Database", data: Path, run: "Run", data_def: str, format_: str, path: Path
) -> "Output | None":
    """The output of the run with that file, whose format the appender chose."""
    from crawl_engine.append.loop.output_dir import present_path
    from crawl_engine.store.tables.output import outputs

    for recorded in outputs.list_outputs(db, run.seq):
        own = present_path(recorded.path, data, run.id)
        if (recorded.data_def, recorded.type) == (data_def, format_) and Path(own).resolve() == path.resolve():
            return replace(recorded, path=own)
    return None


def _write_files(output: Path, data_defs: "Sequence[DataDef]", write: "Callable[[DataDef, BinaryIO], None]") -> None:
    """Write one file for each dataDef; each replaces an older one as a whole."""
    from crawl_engine.append.replaced_file import open_replacement

    for data_def in data_defs:
        file = output if len(data_defs) == 1 else file_of_data_def(output, data_def.name)
        with open_replacement(file) as stream:
            write(data_def, stream)


def _choose_format(output: Path | None, format_: str | None) -> str:
    """The format: as given, by the file's suffix, or CSV on stdout. Raises UsageError if they differ."""
    if output is None:
        return format_ or "csv"
    by_suffix = output_type_of(output)
    if format_ is None and by_suffix is None and output.suffix:
        raise UsageError(
            f"-o {output}: unknown suffix '{output.suffix}'", f"Use {describe_suffixes()}, or give --format."
        )
    if format_ is not None and by_suffix is not None and format_ != by_suffix.name:
        raise UsageError(
            f"-o {output}: its suffix means {by_suffix.name}, --format says {format_}", "Leave out --format."
        )
    return format_ or (by_suffix.name if by_suffix is not None else "csv")


class _RowExport(Struct, frozen=True):
    """Writes the rows of a run that are not in `seen`. `options`: what the flags change of an output's settings."""

    db: "Database"
    run: int
    seen: "SeenRows | None"
    format: str
    options: dict[str, Any]

    def write(self, data_def: "DataDef", stream: BinaryIO) -> None:
        from crawl_engine.append.export import export
        from crawl_engine.model.output_type import AppenderDef
        from crawl_engine.supervise.outputs import output_settings

        appender = AppenderDef(name="", type=self.format, delimiter=default_delimiter(self.format))
        settings = output_settings(data_def, appender) | self.options
        export(self.db, self.run, data_def.name, settings, self.format, stream, seen_rows=self.seen)

    def write_database(self, output: Path, data_defs: "Sequence[DataDef]") -> None:
        """Write one table for each dataDef. A new file appears as a whole, an existing one changes by transactions."""
        from crawl_engine.append.export import export_table
        from crawl_engine.append.replaced_file import create_file
        from crawl_engine.model.output_type import AppenderDef
        from crawl_engine.supervise.outputs import output_settings

        with contextlib.nullcontext(output) if output.exists() else create_file(output) as path:
            for data_def in data_defs:
                settings = output_settings(data_def, AppenderDef(name="", type=self.format))
                export_table(self.db, self.run, data_def.name, settings, self.format, path, seen_rows=self.seen)


@contextlib.contextmanager
def _open_seen_rows(db: "Database", data: Path, since: "Run", data_defs: "Sequence[DataDef]") -> "Iterator[SeenRows]":
    """The keys of the rows of that run and all earlier ones; in a temporary file if the data dir is read-only."""
    from crawl_engine.append.loop.only_new import SeenRows
    from crawl_engine.store.tables.row.rowkeys import KEYS, RowKeys

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


def _select_data_defs(definitions: "Definitions", name: str | None, *, tables: bool) -> "list[DataDef]":
    with_fields = [d for d in definitions.data_defs if d.fields and (d.axis is not None or not tables)]
    if name is None:
        others = [d.name for d in definitions.data_defs if d.fields and d not in with_fields]
        if others:
            write_stderr(f"not written, as they are not tables: {', '.join(others)}")
        if not with_fields:
            raise UsageError("no dataDef has rows to export", "Give one `fields`, or a table its items.")
        return with_fields
    data_def = definitions.data_def(name)
    if data_def is None:
        names = [d.name for d in with_fields]
        raise UsageError(f"unknown dataDef '{name}'{suggest(name, names)}", "Check its name in the defs.")
    if tables and data_def.axis is None:
        raise UsageError(f"'{name}' is not a table", "--format scoopi writes dataDefs with items; leave it out.")
    return [data_def]
