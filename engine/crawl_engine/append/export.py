"""Exports the rows of a dataDef from the database, in the formats of outputs. Works at any time."""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from crawl_engine.append.formats.writer import Batch, create_encoder, create_writer
from crawl_engine.append.loop.only_new import OnlyNewFilter, SeenRows
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read.job_range import find_first_id
from crawl_engine.store.tables.output.outputs import Output
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.run.runs import Run

BATCH_ROWS = 2_000
FillTable = Callable[[Path, str, Mapping[str, Any], Iterable[Batch]], int]
"""Writes rows to a new table of a database: its path, the table's name, the settings of an output, and the rows."""


def export(
    db: Database,
    run_seq: int,
    data_def: str,
    settings: Mapping[str, Any],
    format: str,  # noqa: A002 - the name of the option
    stream: BinaryIO | TextIO,
    *,
    seen_rows: SeenRows | None = None,
) -> int:
    """Write the rows of a dataDef to a stream, without `seen_rows`; returns how many. `settings`: as of an output.

    Raises CrawlError on a format that is not a stream of bytes, and what the stream raises.
    """
    encoder = create_encoder(format, settings)
    _write_bytes(stream, encoder.header())
    count = 0
    for batch in read_batches(db, run_seq, data_def, seen_rows):
        _write_bytes(stream, encoder.rows(row for _, row in batch))
        count += len(batch)
    if encoder.has_footer:
        _write_bytes(stream, encoder.footer())
    return count


def export_table(
    db: Database,
    run_seq: int,
    data_def: str,
    settings: Mapping[str, Any],
    format: str,  # noqa: A002 - the name of the option
    path: Path,
    *,
    seen_rows: SeenRows | None = None,
) -> int:
    """Write the rows of a dataDef to a table of that name in the database at `path`; returns how many.

    Replaces a table of that name; others stay. Raises StorageError if `path` is not a database.
    """
    fill_table: FillTable = import_module(f"crawl_engine.append.formats.{format}").fill_table
    return fill_table(path, data_def, settings, read_batches(db, run_seq, data_def, seen_rows))


def rewrite_output(db: Database, data: Path, run: Run, output: Output) -> None:
    """Write the file of an output again, up to its cursor, as the appender of its run does. `data`: the data dir.

    Raises CrawlError, OSError.
    """
    writer = create_writer(output, run=run.id, folder=data.absolute() / "output" / run.id)
    with closing(OnlyNewFilter(db, run.seq, data)) as only_new, closing(writer):
        while not only_new.load_step([output]):
            pass
        batches = (
            only_new.filter_batch(output, [row for row in batch if row[0] <= output.cursor])
            for batch in read_batches(db, run.seq, output.data_def)
        )
        writer.prepare(batch for batch in batches if batch)
        writer.swap_in()


def read_batches(db: Database, run_seq: int, data_def: str, seen_rows: SeenRows | None = None) -> Iterator[Batch]:
    """The current rows of a dataDef in batches, without `seen_rows` of earlier runs."""
    at = find_first_id(db, run_seq, rows.last_id_of_all_runs(db), table="rows") - 1
    while batch := rows.list_by_data_def(db, run_seq, data_def, at, BATCH_ROWS):
        at = batch[-1][0]
        yield batch if seen_rows is None else seen_rows.unseen(data_def, batch)


def _write_bytes(stream: BinaryIO | TextIO, data: bytes) -> None:
    if isinstance(stream, io.TextIOBase):
        stream.write(data.decode("utf-8"))
    else:
        stream.write(data)  # type: ignore[arg-type]
