"""Writes outputs with `changes`: what a run added, changed and lost since an earlier one."""

import contextlib
import logging
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from crawl_engine.append.change_lines import ChangeEncoder
from crawl_engine.append.formats.compression import CompressedEncoder
from crawl_engine.append.formats.file_writer import FileWriter
from crawl_engine.append.formats.jsonl import JsonlEncoder
from crawl_engine.append.formats.writer import Batch, FileState, file_mode
from crawl_engine.append.loop.turns import LoopContext
from crawl_engine.append.run_changes import ComparedDef, compare_rows, read_changes
from crawl_engine.errors import StorageError
from crawl_engine.model.definition import DataDef
from crawl_engine.model.output_type import CHANGES_OF
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read.run_comparison import find_earlier_run, has_all_rows
from crawl_engine.store.tables.output.outputs import Output
from crawl_engine.store.tables.row.row_entries import RowEntries
from crawl_engine.store.tables.run import runs, versions

_CSV_OPTIONS = ("delimiter", "escape_formulas", "bom", "quoting", "decimal")
_log = logging.getLogger("appender")


@contextlib.contextmanager
def open_entries() -> Iterator[RowEntries]:
    """A temporary place for the rows of two runs. Raises StorageError."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="crawl-console-")
    except OSError as error:
        raise StorageError(f"no temporary folder: {error.strerror}", "Set TMPDIR to a folder with space.") from error
    with folder, contextlib.closing(RowEntries(Path(folder.name) / "rows.db")) as entries:
        yield entries


class ChangesWriter(FileWriter):
    """Writes one output. Both runs are read: the rows that it is given do not matter."""

    is_whole = True

    def __init__(self, output: Output, loop: LoopContext, mode: int) -> None:
        super().__init__(Path(output.path), JsonlEncoder(()), mode=mode, ending=b"")
        self._output = output
        self._loop = loop
        self._is_final = False
        """Whether it was written after the last page of the run: what vanished is not known before."""

    def restore(self, output: Output) -> bool:
        """Whether the file is the recorded one, and holds all changes if the run ends."""
        is_missing = self._loop.stop.draining and not self._is_final
        return not is_missing and (output.inode is None or super().restore(output))

    def prepare(self, batches: Iterable[Batch]) -> FileState:  # noqa: ARG002 - see the class
        """Write what differs between the runs to a temporary file."""
        is_final = self._loop.stop.draining
        with open_entries() as entries, self._loop.db.snapshot():
            state = super().prepare(self._compare(entries))
        self._is_final = is_final
        return state

    def _compare(self, entries: RowEntries) -> Iterator[Batch]:
        """What to write. Sets the encoder."""
        db, run, name, settings = self._loop.db, self._loop.run.seq, self._output.data_def, self._output.settings
        data_def = _find_data_def(db, run, name) or DataDef(name=name)
        earlier = find_earlier_run(db, run, name)
        before = earlier and _find_data_def(db, earlier, name)
        compared = ComparedDef.of(before or data_def, data_def)
        if missing := [field for field in compared.key if field not in compared.old_columns]:
            _log.warning("%s: the run before has no field '%s' of the key, so all rows are added", name, missing[0])
            before, earlier, compared = None, None, ComparedDef.of(data_def, data_def)
        options = {key: settings[key] for key in _CSV_OPTIONS if key in settings}
        changes = ChangeEncoder("jsonl" if self._output.type == CHANGES_OF["jsonl"] else "csv", compared, options)
        method = settings.get("compression")
        self._encoder = changes if method is None else CompressedEncoder(changes, method)
        compare_rows(db, entries, compared, old=earlier, new=run)
        is_decided = earlier is not None and has_all_rows(db, run, earlier, name)
        return (
            [(0, row) for row in changes.rows_of(batch)] for batch in read_changes(db, entries, with_missing=is_decided)
        )


def create_changes_writer(output: Output, *, loop: LoopContext, folder: Path) -> ChangesWriter:
    """The writer of an output with `changes`."""
    return ChangesWriter(output, loop, file_mode(output, folder))


def _find_data_def(db: Database, run: int, name: str) -> DataDef | None:
    """A dataDef as a run had it."""
    version = runs.get(db, run).defs_version
    return None if version is None else versions.read(db, version).data_def(name)
