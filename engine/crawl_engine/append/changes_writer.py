"""Writes outputs with `changes`: what a run added, changed and lost since an earlier one."""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from crawl_engine.append.change_lines import ChangeEncoder
from crawl_engine.append.formats.compression import CompressedEncoder
from crawl_engine.append.formats.file_writer import FileWriter
from crawl_engine.append.formats.jsonl import JsonlEncoder
from crawl_engine.append.formats.writer import Batch, FileState, file_mode
from crawl_engine.append.loop.turns import LoopContext, SupervisorGone
from crawl_engine.append.run_changes import RunComparison
from crawl_engine.model.definition import DataDef
from crawl_engine.model.output_type import CHANGES_OF
from crawl_engine.store.read.run_comparison import find_data_def
from crawl_engine.store.tables.output.outputs import Output
from crawl_engine.store.tables.row.row_entries import RowEntries, open_entries

_CSV_OPTIONS = ("delimiter", "escape_formulas", "bom", "quoting", "decimal")
_log = logging.getLogger("appender")


class ChangesWriter(FileWriter):
    """Writes one output. Both runs are read: the rows that it is given do not matter."""

    is_whole = True

    def __init__(self, output: Output, loop: LoopContext, mode: int) -> None:
        super().__init__(Path(output.path), JsonlEncoder(()), mode=mode, ending=b"")
        self._output = output
        self._loop = loop

    def restore(self, output: Output) -> bool:
        """Whether the file is the recorded one. The first one of a run is written when a whole output is due."""
        return output.inode is None or super().restore(output)

    def prepare(self, batches: Iterable[Batch]) -> FileState:  # noqa: ARG002 - see the class
        """Write what differs between the runs to a temporary file."""
        with open_entries() as entries:
            return super().prepare(self._compare(entries))

    def _compare(self, entries: RowEntries) -> Iterator[Batch]:
        """What to write. Sets the encoder."""
        db, run, name, settings = self._loop.db, self._loop.run.seq, self._output.data_def, self._output.settings
        comparison = RunComparison.find(db, run, find_data_def(db, run, name) or DataDef(name=name))
        if missing := comparison.missing_key:
            _log.warning("%s: the run before has no field '%s' of the key, so all rows are added", name, missing)
            comparison = comparison.without_earlier()
        options = {key: settings[key] for key in _CSV_OPTIONS if key in settings}
        format_ = next(type_ for type_, of_changes in CHANGES_OF.items() if of_changes == self._output.type)
        encoder = ChangeEncoder(format_, comparison.compared, options)
        method = settings.get("compression")
        self._encoder = encoder if method is None else CompressedEncoder(encoder, method)
        return self._rows(encoder, comparison, entries)

    def _rows(self, encoder: ChangeEncoder, comparison: RunComparison, entries: RowEntries) -> Iterator[Batch]:
        for changes in comparison.read(self._loop.db, entries, self._check):
            self._check()
            yield [(0, row) for row in encoder.rows_of(changes)]

    def _check(self) -> None:
        if self._loop.stop.supervisor_gone:
            raise SupervisorGone


def create_changes_writer(output: Output, *, loop: LoopContext, folder: Path) -> ChangesWriter:
    """The writer of an output with `changes`."""
    return ChangesWriter(output, loop, file_mode(output, folder))
