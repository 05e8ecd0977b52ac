"""Compares the output files of a run with its rows, while these are read for the sums."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.append.formats.projection import RowProjection, projection_of
from crawl_engine.append.formats.writer import load_format
from crawl_engine.append.loop.only_new import OnlyNewFilter
from crawl_engine.append.loop.output_dir import present_path
from crawl_engine.errors import StorageError
from crawl_engine.model.output_type import OUTPUT_TYPES, is_object
from crawl_engine.model.run import RunState
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read.content import ContentRow
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.output.outputs import Output
from crawl_engine.store.tables.run.runs import Run
from crawl_engine.supervise.verification.file_check import CheckedRow, FileCheck, TableCheck, WholeCheck

_CHANGED = "it changed while it was read"


class OutputResult(Struct, frozen=True, kw_only=True):
    """The result of one output: the dataDef in its file."""

    path: str
    data_def: str
    status: Literal["valid", "invalid", "not_checked"]
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The object in `state --verify --json`."""
        return {"path": self.path, "data_def": self.data_def, "status": self.status, "reason": self.reason or None}


class _OpenOutput(Struct):
    """An output with its check, if it can be checked."""

    output: Output
    check: FileCheck | WholeCheck | TableCheck | None = None
    projection: RowProjection | None = None
    problem: str = ""
    skipped: str = ""


class OutputChecks:
    """The outputs of one run. Raises DatabaseBusy."""

    def __init__(self, db: Database, folder: Path, run: Run) -> None:
        self._db = db
        self._run = run
        later = outputs.list_later_paths(db, run.seq)
        self._open = [
            self._open_output(replace(output, path=present_path(output.path, folder, run.id)), later)
            for output in outputs.list_outputs(db, run.seq)
        ]
        self._only_new = OnlyNewFilter(db, run.seq, folder)
        self._load_earlier_rows()

    def check(self, batch: Sequence[ContentRow], damaged: set[int]) -> None:
        """Compare the next rows of the run; `damaged`: ids of rows that differ from their commit."""
        by_data_def: dict[str, list[CheckedRow]] = {}
        for row in batch:
            text = None if row.id in damaged else row.data.decode()
            by_data_def.setdefault(row.data_def, []).append((row.id, text))
        for one in self._open:
            if one.check is None:
                continue
            own = [row for row in by_data_def.get(one.output.data_def, []) if row[0] <= one.output.cursor]
            if isinstance(one.check, WholeCheck) and any(text is None for _, text in own):
                one.skipped = one.skipped or "one of its rows is damaged"
            try:
                rows = self._filter(one.output, own)
                one.check.check(rows if one.projection is None else one.projection.apply(rows))
            except (OSError, StorageError) as error:
                self._give_up(one, error)

    def finish(self) -> list[OutputResult]:
        """The results, once all rows were compared."""
        now = {output.id: output for output in outputs.list_outputs(self._db, self._run.seq)}
        return [self._conclude(one, now.get(one.output.id)) for one in self._open]

    def close(self) -> None:
        """Close every file."""
        self._only_new.close()
        for one in self._open:
            if one.check is not None:
                one.check.close()

    def _open_output(self, output: Output, later: set[str]) -> _OpenOutput:
        one = _OpenOutput(output, projection=projection_of(output.settings))
        if output.path in later:
            one.skipped = "a later run writes this file"
        elif is_object(output.path):
            one.skipped = "an object is not compared"
        elif output.dirty or output.pending:
            one.skipped = "it is written again by the next run"
        elif not output.path:
            one.skipped = f"rows that the appender '{output.appender}' sends are not compared"
        elif output.type not in OUTPUT_TYPES:
            one.skipped = "a class of your own writes it"
        elif reason := OUTPUT_TYPES[output.type].unchecked:
            one.skipped = reason
        else:
            try:
                one.check = self._open_file(output)
            except (OSError, StorageError) as error:
                self._give_up(one, error)
        return one

    def _open_file(self, output: Output) -> FileCheck | WholeCheck | TableCheck:
        encoder = load_format(output.type).create_encoder({**output.settings, "compression": None})
        if encoder is None:
            return TableCheck(output, run=self._run.id)
        if encoder.has_footer:
            return WholeCheck(output, encoder)
        return FileCheck(output, encoder, is_final=self._run.state is RunState.DONE)

    def _load_earlier_rows(self) -> None:
        try:
            while not self._only_new.load_step([one.output for one in self._open if one.check is not None]):
                pass
        except StorageError as error:
            for one in self._open:
                if "only_new" in one.output.settings:
                    one.skipped = error.message
                    one.check = None

    def _filter(self, output: Output, own: list[CheckedRow]) -> list[CheckedRow]:
        """Without the rows of earlier runs, if the file has only new ones; damaged rows stay."""
        if "only_new" not in output.settings:
            return own
        kept = {id_ for id_, _ in self._only_new.filter_batch(output, [(id_, text) for id_, text in own if text])}
        return [row for row in own if row[1] is None or row[0] in kept]

    def _conclude(self, one: _OpenOutput, now: Output | None) -> OutputResult:
        output = one.output
        if one.check is not None:
            try:
                one.check.finish()
            except (OSError, StorageError) as error:
                self._give_up(one, error)
        if now is None or now.dirty or now.inode != output.inode or now.cursor < output.cursor:
            one.skipped = one.skipped or _CHANGED
        reason = one.skipped or one.problem or (one.check.reason if one.check is not None else "")
        status: Literal["valid", "invalid", "not_checked"] = "invalid" if reason else "valid"
        return OutputResult(
            path=output.path, data_def=output.data_def, status="not_checked" if one.skipped else status, reason=reason
        )

    def _give_up(self, one: _OpenOutput, error: OSError | StorageError) -> None:
        if isinstance(error, FileNotFoundError) or not Path(one.output.path).exists():
            one.problem = "missing"
        else:
            one.problem = str(error.strerror) if isinstance(error, OSError) else "cannot be read as a database"
        if one.check is not None:
            one.check.close()
            one.check = None
