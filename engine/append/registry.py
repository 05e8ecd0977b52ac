"""Loads the modules of the output types that `engine.model.output_type` lists."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from engine.append.writer import OutputFormat, RowEncoder, Writer
from engine.errors import CrawlError, suggest
from engine.model.output_type import OUTPUT_TYPES
from engine.store.tables.outputs import Output


def load_format(type_: str) -> OutputFormat:
    """The `FORMAT` of the module `engine.append.<type>`. Raises CrawlError on an unknown type."""
    if type_ not in OUTPUT_TYPES:
        raise CrawlError(
            f"unknown output type '{type_}'{suggest(type_, list(OUTPUT_TYPES))}",
            "Write one of them as `type` of the appender.",
        )
    format_: OutputFormat = import_module(f"engine.append.{type_}").FORMAT
    return format_


def create_writer(output: Output, *, run: str, folder: Path) -> Writer:
    """The writer of an output as it is declared. Only their owner can read files inside `folder`.

    Raises CrawlError on an unknown type.
    """
    return load_format(output.type).create_writer(output, run=run, mode=file_mode(output, folder))


def file_mode(output: Output, folder: Path) -> int:
    """The permissions of a new file."""
    return 0o600 if Path(output.path).is_relative_to(folder) else 0o666


def create_encoder(type_: str, settings: Mapping[str, Any]) -> RowEncoder:
    """The encoder of a type whose files are streams of bytes. Raises CrawlError on any other type."""
    encoder = load_format(type_).create_encoder(settings)
    if encoder is None:
        raise CrawlError(f"'{type_}' cannot be written to a stream", "Give -o FILE.")
    return encoder
