"""Writes the rows of a run to stdout while it crawls, for `run -o -`."""

import json
import select
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from crawl_console.cli.output import open_stdout, redirect_to_devnull
from crawl_engine.append.formats.row_json import join_fields, to_one_line
from crawl_engine.append.formats.writer import RowEncoder, create_encoder
from crawl_engine.errors import CrawlError, UsageError
from crawl_engine.store.db.connector import DatabaseBusy, connect
from crawl_engine.store.read.job_range import find_first_id
from crawl_engine.store.tables.row import rows
from crawl_engine.supervise.outputs import output_settings

if TYPE_CHECKING:
    from crawl_engine.model.definition import Definitions

_BATCH_ROWS = 500
_POLL_SECONDS = 0.05


def check_streamable(definitions: "Definitions", format_: str) -> None:
    """Raise UsageError if the rows of these defs cannot be streamed: CSV has one header."""
    names = [data_def.name for data_def in definitions.data_defs if data_def.fields]
    if format_ == "csv" and len(names) != 1:
        raise UsageError(
            f"-o - --format csv writes one dataDef, and the defs have {', '.join(names) or 'none'}",
            "Use --format jsonl, or `export DATADEF --format csv` after the run.",
        )


class RowStream:
    """Follows the committed rows of a run in a thread. For a slow reader the rows wait in the database.

    Each start writes all rows of the run. A row that new defs or a retry replace comes again.
    """

    def __init__(self, database: Path, run: int, definitions: "Definitions", format_: str) -> None:
        self.failure: OSError | CrawlError | None = None
        """Why it ended early; BrokenPipeError if the reader is gone."""
        self._database = database
        self._run = run
        self._lines = _Lines(definitions, format_)
        self._is_last = threading.Event()
        self._reader = select.poll()
        self._reader.register(sys.stdout.fileno(), 0)  # an event is then an error: the reader is gone
        self._thread = threading.Thread(target=self._follow, args=(open_stdout(),), name="row-stream", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Write the rows that are left; wait for the reader, however long that takes."""
        self._is_last.set()
        self._thread.join()
        if isinstance(self.failure, BrokenPipeError):
            redirect_to_devnull(sys.stdout)

    def _follow(self, stream: BinaryIO) -> None:
        try:
            self._write_rows(stream)
        except (OSError, CrawlError) as error:
            self.failure = error

    def _write_rows(self, stream: BinaryIO) -> None:
        stream.write(self._lines.header())
        stream.flush()
        db = connect(self._database, read_only=True)
        try:
            at: int | None = None
            while True:
                is_last = self._is_last.is_set()
                try:
                    if at is None:
                        at = find_first_id(db, self._run, rows.last_id_of_all_runs(db), table="rows") - 1
                    batch = rows.list_after(db, self._run, at, _BATCH_ROWS)
                    names = rows.data_def_names(db) if batch else {}
                except DatabaseBusy:
                    batch, is_last = [], False
                if batch:
                    at = batch[-1][0]
                    stream.write(self._lines.encode([(names[data_def], row) for _, data_def, row in batch]))
                    stream.flush()
                elif is_last:
                    return
                elif self._reader.poll(_POLL_SECONDS * 1_000):
                    raise BrokenPipeError
        finally:
            db.close()


class _Lines:
    """Rows as lines: of one dataDef as they are, of several as `{"dataDef": …, "row": …}`."""

    def __init__(self, definitions: "Definitions", format_: str) -> None:
        with_fields = [data_def for data_def in definitions.data_defs if data_def.fields]
        self._only = with_fields[0].name if len(with_fields) == 1 else None
        self._csv: RowEncoder | None = None
        if format_ == "csv":
            self._csv = create_encoder("csv", output_settings(with_fields[0]))

    def header(self) -> bytes:
        return self._csv.header() if self._csv is not None else b""

    def encode(self, batch: Sequence[tuple[str, str]]) -> bytes:
        """The lines of rows, each with its dataDef."""
        own = [row for name, row in batch if name == self._only]
        if self._csv is not None:
            return self._csv.rows(own)
        lines = own if self._only is not None else [_tagged(name, row) for name, row in batch]
        return "".join([f"{to_one_line(line)}\n" for line in lines]).encode("utf-8", "replace")


def _tagged(name: str, row: str) -> str:
    return join_fields({"dataDef": json.dumps(name, ensure_ascii=False), "row": row})
