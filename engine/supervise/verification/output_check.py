"""Compares the output files of a run with its rows, while these are read for the sums."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from engine.append.loop.only_new import OnlyNewFilter
from engine.append.loop.output_dir import present_path
from engine.errors import StorageError
from engine.model.output_type import OUTPUT_TYPES
from engine.model.run import RunState
from engine.store.db.connector import Database
from engine.store.read.content import ContentRow
from engine.store.tables.output import outputs
from engine.store.tables.output.outputs import Output
from engine.store.tables.run.runs import Run
from engine.supervise.verification.file_check import CheckedRow, FileCheck
from engine.supervise.verification.findings import OutputResult, OutputStatus
from engine.supervise.verification.table_check import TableCheck

_CHANGED = "it changed while it was read"


class _OpenOutput(Struct):
    """An output with its check, if it can be checked."""

    output: Output
    check: FileCheck | TableCheck | None = None
    problem: str = ""
    skipped: str = ""
    groups: set[str] = field(default_factory=set)
    """Those that have rows in it."""


class OutputChecks:
    """The outputs of one run. Raises DatabaseBusy."""

    def __init__(self, db: Database, folder: Path, run: Run) -> None:
        self._db = db
        self._run = run
        declared = [
            replace(output, path=present_path(output.path, folder, run.id))
            for output in outputs.list_outputs(db, run.seq)
        ]
        later = outputs.list_later_paths(db, run.seq)
        self._open = [self._open_output(output, later) for output in declared]
        self._only_new = OnlyNewFilter(db, run.seq, folder)
        self._load_earlier_rows([one.output for one in self._open if one.check is not None])

    def check(self, batch: Sequence[ContentRow], damaged: set[int]) -> None:
        """Compare the next rows of the run; `damaged`: ids of those that are not as they were committed."""
        by_data_def: dict[str, list[CheckedRow]] = {}
        for row in batch:
            data = None if row.id in damaged else row.data.decode()
            by_data_def.setdefault(row.data_def, []).append(CheckedRow(row.id, row.group, data))
        for one in self._open:
            if one.check is None:
                continue
            own = [row for row in by_data_def.get(one.output.data_def, []) if row.id <= one.output.cursor]
            one.groups.update([row.group for row in own])
            try:
                one.check.check(self._filter(one.output, own))
            except (OSError, StorageError) as error:
                self._give_up(one, error)

    def finish(
        self, groups_by_data_def: Mapping[str, set[str]], lacking: set[str]
    ) -> tuple[list[OutputResult], dict[tuple[str, str], list[str]]]:
        """The results, and the reasons by group and dataDef.

        `groups_by_data_def`: the groups that the defs give each dataDef. `lacking`: groups that lost rows: a line that
        is no row was theirs.
        """
        now = {output.id: output for output in outputs.list_outputs(self._db, self._run.seq)}
        results, reasons = [], dict[tuple[str, str], list[str]]()
        for one in self._open:
            output, again = one.output, now.get(one.output.id)
            self._finish_check(one)
            if again is None or again.dirty or again.inode != output.inode or again.cursor < output.cursor:
                one.skipped = one.skipped or _CHANGED
            if one.skipped:
                results.append(_result(output, "not_checked", one.skipped))
                continue
            differences = one.check.differences if one.check is not None else {}
            name = Path(output.path).name
            texts = {group: f"output {name}: {difference.text}" for group, difference in differences.items()}
            groups = one.groups | groups_by_data_def.get(output.data_def, set())
            surplus = one.check.surplus if one.check is not None else ""
            if surplus:
                texts = {**dict.fromkeys(groups & lacking or groups, surplus), **texts}
            if one.problem:
                texts |= dict.fromkeys(groups, one.problem)
            for group, text in texts.items():
                reasons.setdefault((group, output.data_def), []).append(text)
            reason = one.problem or ", ".join(dict.fromkeys([*texts.values(), surplus] if surplus else texts.values()))
            results.append(_result(output, "invalid" if reason else "valid", reason))
        return results, reasons

    def close(self) -> None:
        """Close every file."""
        self._only_new.close()
        for one in self._open:
            if one.check is not None:
                one.check.close()

    def _open_output(self, output: Output, later: set[str]) -> _OpenOutput:
        one = _OpenOutput(output)
        if output.path in later:
            one.skipped = "a later run writes this file"
        elif output.dirty or output.pending:
            one.skipped = "it is written again by the next run"
        elif output.type not in OUTPUT_TYPES:
            one.skipped = "a class of your own writes it"
        else:
            try:
                if output.type == "sqlite":
                    one.check = TableCheck(output, run=self._run.id)
                else:
                    one.check = FileCheck(output, is_final=self._run.state is RunState.DONE)
            except (OSError, StorageError) as error:
                self._give_up(one, error)
        return one

    def _load_earlier_rows(self, checked: Sequence[Output]) -> None:
        try:
            while not self._only_new.load_step(checked):
                pass
        except StorageError as error:
            for one in self._open:
                if "only_new" in one.output.settings:
                    one.skipped = error.message
                    one.check = None

    def _filter(self, output: Output, own: list[CheckedRow]) -> list[CheckedRow]:
        """Without the rows that an earlier run has, if the file has only new ones; damaged rows stay."""
        if "only_new" not in output.settings:
            return own
        kept = {id_ for id_, _ in self._only_new.filter_batch(output, [(r.id, r.data) for r in own if r.data])}
        return [row for row in own if row.data is None or row.id in kept]

    def _finish_check(self, one: _OpenOutput) -> None:
        if one.check is None:
            return
        try:
            one.check.finish()
        except (OSError, StorageError) as error:
            self._give_up(one, error)
        else:
            one.problem = one.check.problem

    def _give_up(self, one: _OpenOutput, error: OSError | StorageError) -> None:
        name = Path(one.output.path).name
        if isinstance(error, FileNotFoundError) or not Path(one.output.path).exists():
            one.problem = f"output {name}: missing"
        else:
            text = error.strerror if isinstance(error, OSError) else "cannot be read as a database"
            one.problem = f"output {name}: {text}"
        if one.check is not None:
            one.check.close()
            one.check = None


def _result(output: Output, status: OutputStatus, reason: str) -> OutputResult:
    return OutputResult(id=output.id, path=output.path, data_def=output.data_def, status=status, reason=reason)
