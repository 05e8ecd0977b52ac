"""Exports: the rows of a dataDef from the truth, at any time, in the forms outputs have. Writes nothing of a crawl."""

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

from engine.append.only_new import Known
from engine.append.registry import encoder_of
from engine.append.sqlite import Table, fill
from engine.append.writer import Batch
from engine.store.db.connector import Database
from engine.store.tables import rows

BATCH_ROWS = 2_000


def export(
    db: Database,
    run_seq: int,
    data_def: str,
    columns: Sequence[str],
    joins: Mapping[str, str],
    format: str,  # noqa: A002 - the name of the option
    stream: BinaryIO | TextIO,
    *,
    delimiter: str = ",",
    known: Known | None = None,
) -> int:
    """Write the rows of a dataDef to a stream as `csv` or `jsonl`, those `known` left out; returns how many.

    Raises CrawlError on another format, and what the stream raises.
    """
    encoder = encoder_of(format, list(columns), dict(joins), delimiter)
    _put(stream, encoder.header())
    count = 0
    for batch in batches(db, run_seq, data_def, known):
        _put(stream, encoder.rows(row for _, row in batch))
        count += len(batch)
    return count


def export_sqlite(
    db: Database,
    run_seq: int,
    data_def: str,
    columns: Sequence[str],
    joins: Mapping[str, str],
    path: Path,
    *,
    types: Mapping[str, str] | None = None,
    known: Known | None = None,
) -> int:
    """Write the rows of a dataDef to a table of that name in the database at `path`; returns how many.

    A table of that name is replaced, others stay. Raises StorageError where `path` is no database.
    """
    return fill(path, Table(data_def, columns, joins, types), batches(db, run_seq, data_def, known))


def batches(db: Database, run_seq: int, data_def: str, known: Known | None = None) -> Iterator[Batch]:
    """The rows of a dataDef as they are now, a few at a time, without those that are `known` from earlier runs."""
    at = 0
    while batch := rows.of_data_def(db, run_seq, data_def, at, BATCH_ROWS):
        at = batch[-1][0]
        yield batch if known is None else known.new(data_def, batch)


def _put(stream: BinaryIO | TextIO, data: bytes) -> None:
    if isinstance(stream, io.TextIOBase):
        stream.write(data.decode("utf-8"))
    else:
        stream.write(data)  # type: ignore[arg-type]
