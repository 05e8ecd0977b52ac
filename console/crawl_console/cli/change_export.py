"""Writes the differences between two runs, for `export --changes`."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct

from crawl_console.cli.output import write_stderr
from crawl_console.client import find_run
from crawl_engine.append.change_lines import ChangeEncoder
from crawl_engine.append.formats.compression import compressor
from crawl_engine.append.run_changes import RunComparison
from crawl_engine.errors import UsageError, plural
from crawl_engine.store.read.run_comparison import find_earlier_run
from crawl_engine.store.tables.row.row_entries import open_entries
from crawl_engine.store.tables.run import deleted_runs, runs

if TYPE_CHECKING:
    from crawl_engine.model.definition import DataDef
    from crawl_engine.store.db.connector import Database
    from crawl_engine.store.tables.run.runs import Run


class ChangeExport(Struct, frozen=True, kw_only=True):
    """The differences between the rows of dataDefs in two runs."""

    db: "Database"
    run: "Run"
    since: str | None
    """The id of the earlier run; None: the last earlier run with rows."""
    format: str
    csv_options: Mapping[str, Any]
    compression: str | None

    def write(self, data_def: "DataDef", stream: BinaryIO) -> None:
        """Write the changes of a dataDef. Raises UsageError, StorageError, DatabaseBusy and OSError."""
        name, earlier = data_def.name, self._find_earlier(data_def.name)
        seq = None if earlier is None else earlier.seq
        comparison = RunComparison.between(self.db, self.run.seq, seq, data_def)
        if earlier is not None:
            _check_fields(comparison, earlier)
        encoder = ChangeEncoder(self.format, comparison.compared, self.csv_options)
        with open_entries() as entries:
            changes = comparison.read(self.db, entries)
            pieces: Iterable[bytes] = chain([encoder.header()], map(encoder.lines, changes))
            if self.compression is not None:
                pieces = map(compressor(self.compression), pieces)
            stream.writelines(pieces)
            missing = entries.count_missing()
        if earlier is None:
            oldest = f"; {runs.oldest_id(self.db)} is the oldest run that is left"
            gone = oldest if deleted_runs.has_any_before(self.db, self.run.seq) else ""
            write_stderr(f"no earlier run has rows of {name}: all are added{gone}")
        elif missing and not comparison.is_decided(self.db):
            why = f"not every page that gives or leads to {name} was read in this run"
            write_stderr(f"{name}: {plural(missing, 'row')} of run {earlier.id} not called vanished: {why}")

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


def _check_fields(comparison: RunComparison, earlier: "Run") -> None:
    """Name the fields that only one of the runs has. Raises UsageError if the key is not in both."""
    compared = comparison.compared
    if missing := comparison.missing_key:
        raise UsageError(
            f"{compared.name}: run {earlier.id} has no field '{missing}', which is part of the key now",
            "Compare with a run that has it: --since RUN.",
        )
    columns = dict.fromkeys([*compared.old_columns, *compared.new_columns])
    single = [name for name in columns if name not in compared.common_columns]
    if single:
        write_stderr(f"{compared.name}: not compared, as only one of the runs has it: {', '.join(single)}")
