"""Which writer an output has, by its type. Adding a type is adding a line here."""

from pathlib import Path

from engine.append.csv import CsvEncoder
from engine.append.files import FileWriter
from engine.append.jsonl import JsonlEncoder
from engine.append.sqlite import OutputTable, SqliteWriter
from engine.append.writer import Encoder, Writer
from engine.errors import CrawlError, suggest
from engine.store.tables.outputs import Output

OUTPUT_TYPES = ("csv", "jsonl", "sqlite")


def create_writer(output: Output, *, run: str, folder: Path) -> Writer:
    """The writer of an output as it is declared. Files inside `folder` are for their owner alone.

    Raises CrawlError on a type nobody can write.
    """
    path, told = Path(output.path), output.settings
    mode = 0o600 if path.is_relative_to(folder) else 0o666
    if output.type == "sqlite":
        table = OutputTable(output.data_def, told["columns"], told.get("joins"), told.get("types"))
        return SqliteWriter(path, run, table, mode=mode)
    return FileWriter(
        path, create_encoder(output.type, told["columns"], told.get("joins"), told.get("delimiter")), mode=mode
    )


def create_encoder(
    type_: str, columns: list[str], joins: dict[str, str] | None = None, delimiter: str | None = None
) -> Encoder:
    """The encoder of a type that is a plain file. Raises CrawlError on any other."""
    if type_ == "csv":
        return CsvEncoder(columns, joins, delimiter or ",")
    if type_ == "jsonl":
        return JsonlEncoder(columns)
    raise CrawlError(
        f"unknown output type '{type_}'{suggest(type_, list(OUTPUT_TYPES))}",
        "Write one of them as `type` of the appender.",
    )
