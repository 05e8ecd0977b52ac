"""The command `convert`: writes definitions of Scoopi as record-mode defs, as far as they can be."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from console.cli.options import FilePath, choice, common_options, load_settings_of
from console.cli.output import write_lines, write_stderr
from console.format import plural
from console.sanitize import clean
from engine.errors import StorageError, UsageError

if TYPE_CHECKING:
    from engine.defs.conversion.convert import Conversion
    from engine.defs.conversion.notes import ConversionNote
    from engine.model.definition import Definitions


@click.command()
@click.argument("source", metavar="scoopi", type=choice(["scoopi"]))
@click.argument("folder", metavar="DIR", type=FilePath())
@click.option("-o", "out", metavar="OUT", type=FilePath(), help="Write files into this directory, not to stdout.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on one line.")
@common_options
def convert(source: str, folder: Path, out: Path | None, as_json: bool, data: Path, assign: Sequence[str]) -> int:  # noqa: ARG001
    """Convert the tables of Scoopi's definitions to records. What cannot be converted stays as it is, with a note."""
    import orjson

    from engine.defs.conversion.convert import convert as convert_defs
    from engine.defs.loader import load
    from engine.defs.table_settings import complete_tables

    settings, warnings = load_settings_of(folder, assign)
    loaded = load(folder, settings.default_steps, keep_documents=settings.documents)
    for warning in (*warnings, *loaded.warnings):
        write_stderr(clean(str(warning)))
    definitions = complete_tables(loaded.definitions, settings)
    if all(data_def.axis is None for data_def in definitions.data_defs):
        raise UsageError(f"{folder}: nothing to convert, no dataDef has `items`", "Defs with `fields` run as they are.")
    conversion = convert_defs(loaded.root, definitions, default_steps=settings.default_steps)
    paths = [] if out is None else _write_files(folder, out, definitions, conversion)
    text = conversion.text() if out is None else None
    if as_json:
        write_lines([orjson.dumps(conversion_as_dict(conversion, text, paths)).decode()])
        return 0
    for line in _report(conversion, definitions, folder):
        write_stderr(clean(line))
    if text is not None:
        write_lines(text.removesuffix("\n").split("\n"))
    else:
        write_stderr(clean(f"{out}: {', '.join(str(path.relative_to(out)) for path in paths if out is not None)}"))
    return 0


def conversion_as_dict(conversion: "Conversion", text: str | None, paths: Sequence[Path]) -> Mapping[str, object]:
    """The object of `convert --json`; the names are stable."""
    return {
        "converted": conversion.converted,
        "kept": conversion.kept,
        "notes": [note_as_dict(note) for note in conversion.notes],
        "files": [str(path) for path in paths],
        "defs": text,
    }


def note_as_dict(note: "ConversionNote") -> Mapping[str, object]:
    """A note as `--json` prints it."""
    return {
        "file": note.place.file, "line": note.place.line, "col": note.place.column, "kind": note.kind,
        "data_def": note.name, "message": note.text,
    }  # fmt: skip


def _report(conversion: "Conversion", definitions: "Definitions", folder: Path) -> Sequence[str]:
    """The notes, what belongs to the defs and is no YAML, and how much was converted."""
    lines = [str(note) for note in conversion.notes]
    if written := _written_settings(definitions, conversion):
        lines.append(f"{folder}:1:1: note settings tables that are kept need these in crawl.toml: {', '.join(written)}")
    lines += [
        f"{locator.place}: note file '{locator.from_file}' is read from its place beside the defs: copy it, too"
        for group in definitions.locator_groups
        for locator in group.locators
        if locator.from_file not in (None, "-")
    ]
    if definitions.plugins:
        lines.append(
            f"{folder}:1:1: note file the code in plugins/ is read from its place beside the defs: copy it, too"
        )
    kept = f", {plural(len(conversion.kept), 'table')} kept" if conversion.kept else ""
    lines.append(f"{plural(len(conversion.converted), 'table')} converted{kept}")
    return lines


def _written_settings(definitions: "Definitions", conversion: "Conversion") -> Sequence[str]:
    """The settings of kept tables that are not the defaults: a `scoopi.properties` is not copied."""
    from engine.settings import Settings

    default = Settings()
    kept = [data_def.axis for data_def in definitions.data_defs if data_def.name in conversion.kept]
    found = {
        name: value
        for table in kept
        if table is not None
        for name, value in (
            ("fact_blank", table.fact_blank), ("fact_not_found", table.fact_not_found),
            ("date_time_pattern", table.date_pattern),
        )
    }  # fmt: skip
    return [f"{name} = {value!r}" for name, value in found.items() if value != getattr(default, name)]


def _write_files(folder: Path, out: Path, definitions: "Definitions", conversion: "Conversion") -> list[Path]:
    """Write one file for each one that was read. Raises UsageError where one exists, StorageError."""
    from engine.defs.sources import format_display_path

    texts: dict[Path, str] = {}
    for path in [folder] if folder.is_file() else sorted(folder.rglob("*.y*ml")):
        shown = format_display_path(folder, path)
        if shown in definitions.files:
            texts[out / (path.name if folder.is_file() else path.relative_to(folder))] = conversion.text(shown)
    existing = [str(path) for path in texts if path.exists()]
    if existing:
        raise UsageError(f"{', '.join(existing)}: exists already; nothing was written", "Name another directory.")
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        message = f"{error.filename}: {(error.strerror or str(error)).lower()}"
        raise StorageError(message, "Choose another place, or fix this one.") from error
    return list(texts)
