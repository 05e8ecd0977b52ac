"""Writes the differences between two runs, for `export --changes`."""

import contextlib
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from console.cli.output import write_stderr
from console.client import find_run
from engine.append.change_lines import create_change_encoder
from engine.append.run_changes import ComparedDef, RowComparison
from engine.errors import StorageError, UsageError
from engine.model.fingerprint import ChangeScope
from engine.store.read.run_comparison import find_earlier_run
from engine.store.tables.row.row_entries import RowEntries
from engine.store.tables.run import runs, versions
from engine.supervise.outputs import output_settings

if TYPE_CHECKING:
    from engine.model.definition import DataDef, Definitions
    from engine.store.db.connector import Database
    from engine.store.tables.run.runs import Run

_BATCH = 500


class ChangeExport(Struct, frozen=True, kw_only=True):
    """The differences between the rows of dataDefs in two runs."""

    db: "Database"
    run: "Run"
    definitions: "Definitions"
    """Of the run."""
    since: str | None
    """The id of the earlier run; None: the last earlier run with rows."""
    format: str
    escape_formulas: bool

    def write(self, data_def: "DataDef", stream: BinaryIO) -> None:
        """Write the changes of a dataDef. Raises UsageError, StorageError, DatabaseBusy and OSError."""
        earlier = self._find_earlier(data_def.name)
        compared, joins = self._compare_defs(data_def, earlier)
        encoder = create_change_encoder(self.format, compared, joins, escape_formulas=self.escape_formulas)
        scope = ChangeScope.of_data_def(self.definitions, data_def)
        with _open_entries() as entries:
            comparison = RowComparison(
                self.db, entries, compared, scope, old=None if earlier is None else earlier.seq, new=self.run.seq
            )
            stream.write(encoder.header())
            changes = comparison.changes()
            while batch := list(islice(changes, _BATCH)):
                stream.write(encoder.lines(batch))
        if earlier is None:
            write_stderr(f"no earlier run has rows of {data_def.name}: all are added")
            return
        own, moved = comparison.undecided.own_page, comparison.undecided.moved
        for count, why in (
            (own, "their pages were not judged in this run"),
            (moved, "they may have moved to a page of their site that was not judged in this run"),
        ):
            if count:
                rows = "1 row" if count == 1 else f"{count:,} rows"
                write_stderr(f"{data_def.name}: {rows} of run {earlier.id} not called vanished: {why}")

    def _find_earlier(self, data_def: str) -> "Run | None":
        if self.since is None:
            seq = find_earlier_run(self.db, self.run.seq, data_def)
            return None if seq is None else runs.get(self.db, seq)
        earlier = find_run(self.db, self.since)
        if earlier.seq >= self.run.seq:
            raise UsageError(
                f"--since {earlier.id}: not earlier than run {self.run.id}", "Give an earlier run; see `runs`."
            )
        return earlier

    def _compare_defs(self, data_def: "DataDef", earlier: "Run | None") -> tuple[ComparedDef, dict[str, str]]:
        """The fields of both runs, and the separators of their lists."""
        before = None
        if earlier is not None and earlier.defs_version is not None:
            before = versions.read(self.db, earlier.defs_version).data_def(data_def.name)
        before = before or data_def
        compared = ComparedDef(
            name=data_def.name, key=data_def.key, old_columns=before.columns, new_columns=data_def.columns
        )
        missing = [name for name in data_def.key if name not in before.columns]
        if missing and earlier is not None:
            raise UsageError(
                f"{data_def.name}: run {earlier.id} has no field '{missing[0]}', which is part of the key now",
                "Compare with a run that has it: --since RUN.",
            )
        names = {*before.columns} ^ {*data_def.columns}
        if names and earlier is not None:
            fields = ", ".join(name for name in (*before.columns, *data_def.columns) if name in names)
            write_stderr(f"{data_def.name}: not compared, as only one of the runs has it: {fields}")
        return compared, {**output_settings(before)["joins"], **output_settings(data_def)["joins"]}


@contextlib.contextmanager
def _open_entries() -> Iterator[RowEntries]:
    try:
        folder = tempfile.TemporaryDirectory(prefix="crawl-console-")
    except OSError as error:
        raise StorageError(f"no temporary folder: {error.strerror}", "Set TMPDIR to a folder with space.") from error
    with folder, contextlib.closing(RowEntries(Path(folder.name) / "rows.db")) as entries:
        yield entries
