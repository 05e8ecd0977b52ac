"""The interfaces of output types (format, writer, encoder), and the module of each type.

A writer keeps no record of its own progress: the `outputs` table has it, and the rest of a file is cut off.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from crawl_engine.append.formats.projection import RowProjection, projection_of
from crawl_engine.errors import CrawlError, suggest
from crawl_engine.model.output_type import OUTPUT_TYPES
from crawl_engine.store.tables.output.outputs import Output

Batch = Sequence[tuple[int, str]]
"""Rows of one dataDef in the order of their ids: id, JSON."""


class FileState(Struct, frozen=True):
    """The durable content of a file: its length in bytes, its rows, and its inode."""

    size: int
    rows: int
    inode: int

    @classmethod
    def recorded(cls, output: Output) -> "FileState":
        """As the table has it."""
        return cls(output.bytes, output.rows, output.inode or 0)


class Writer(Protocol):
    """One output. Methods may raise OSError, DatabaseBusy or StorageError; the caller then closes it and retries."""

    @property
    def is_open(self) -> bool:
        """Whether the file is open."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is appended: `prepare` writes the whole output each time. Known once `restore` was called."""
        return False

    def restore(self, output: Output) -> bool:
        """Cut the file back to its record; False if that is impossible and the file must be rebuilt."""

    def append(self, output: Output, batch: Batch) -> FileState:
        """Append rows durably to a restored file."""

    def prepare(self, batches: Iterable[Batch]) -> FileState:
        """Write the whole output again, durably; a crash leaves the old one unchanged."""

    def swap_in(self) -> int | None:
        """Replace the old output with the prepared one. Returns its identity if `prepare` did not know it.

        Does nothing for a database: the transaction of `prepare` has replaced the table.
        """
        return None

    def close(self) -> None:
        """Close the file; may be called again."""


class RowEncoder(Protocol):
    """Encodes rows as the bytes of a file. With a footer the file is written whole: `header`, all rows, `footer`."""

    @property
    def has_footer(self) -> bool:
        """Whether the file ends with `footer`."""
        return False

    def header(self) -> bytes:
        """The first bytes of the file. Begins a new file, if the encoder has a footer."""

    def rows(self, rows: Iterable[str]) -> bytes:
        """The bytes of stored rows."""

    def footer(self) -> bytes:
        """The last bytes of the file."""
        return b""


class OutputFormat(Protocol):
    """One output type. Its module has an instance named `FORMAT`."""

    def create_writer(self, output: Output, *, run: str, mode: int) -> Writer:
        """The writer of an output. `run`: the run's id; `mode`: the permissions of a new file."""

    def create_encoder(self, settings: Mapping[str, Any]) -> RowEncoder | None:
        """The encoder for rows of an output with these settings; None if its files are not streams of bytes."""


def load_format(type_: str) -> OutputFormat:
    """The implementation of a type, built-in or of an installed package. Raises CrawlError on an unknown type."""
    if type_ not in OUTPUT_TYPES:
        raise CrawlError(
            f"unknown output type '{type_}'{suggest(type_, list(OUTPUT_TYPES))}",
            "Write one of them as `type` of the appender.",
        )
    module, _, name = (OUTPUT_TYPES[type_].format or f"crawl_engine.append.formats.{type_}:FORMAT").partition(":")
    format_: OutputFormat = getattr(import_module(module), name)
    return format_


def create_writer(output: Output, *, run: str, folder: Path) -> Writer:
    """The writer of an output as it is declared. Only their owner can read files inside `folder`.

    Raises CrawlError on an unknown type.
    """
    writer = load_format(output.type).create_writer(output, run=run, mode=file_mode(output, folder))
    projection = projection_of(output.settings)
    return writer if projection is None else _ProjectedWriter(writer, projection)


def file_mode(output: Output, folder: Path) -> int:
    """The permissions of a new file."""
    return 0o600 if Path(output.path).is_relative_to(folder) else 0o666


def create_encoder(type_: str, settings: Mapping[str, Any]) -> RowEncoder:
    """The encoder of a type whose files are streams of bytes. Raises CrawlError on any other type."""
    encoder = load_format(type_).create_encoder(settings)
    if encoder is None:
        raise CrawlError(f"'{type_}' cannot be written to a stream", "Give -o FILE.")
    return encoder


class _ProjectedWriter(Writer):
    """Writes the projected rows with another writer."""

    def __init__(self, writer: Writer, projection: RowProjection) -> None:
        self._writer = writer
        self._projection = projection

    @property
    def is_open(self) -> bool:
        return self._writer.is_open

    @property
    def is_whole(self) -> bool:
        return self._writer.is_whole

    def restore(self, output: Output) -> bool:
        return self._writer.restore(output)

    def append(self, output: Output, batch: Batch) -> FileState:
        return self._writer.append(output, self._projection.apply(batch))

    def prepare(self, batches: Iterable[Batch]) -> FileState:
        return self._writer.prepare(map(self._projection.apply, batches))

    def swap_in(self) -> int | None:
        return self._writer.swap_in()

    def close(self) -> None:
        self._writer.close()
