"""Compares the table of an output database with the rows that it must hold."""

from collections.abc import Sequence
from pathlib import Path

from engine.append.formats.sqlite import TableReader, table_of
from engine.store.tables.output.outputs import Output
from engine.supervise.verification.file_check import MAX_DIFFERENCES, CheckedRow, Difference

_BEFORE_ALL = -(2**63)


class TableCheck:
    """Compares one table with rows that come in order. Raises StorageError."""

    def __init__(self, output: Output, *, run: str) -> None:
        """`run`: the run's id."""
        self._reader = TableReader(Path(output.path), table_of(output))
        self._name = Path(output.path).name
        self._only_new = "only_new" in output.settings
        self._last, self._row, self._end = _BEFORE_ALL, 0, output.cursor
        self.differences: dict[str, Difference] = {}
        """As in `FileCheck`."""
        self.surplus = ""
        """As in `FileCheck`."""
        self.problem = ""
        """What concerns the whole table."""
        if not self._reader.has_table(run):
            self.problem = f"output {self._name}: has no table {output.data_def} of this run"

    def check(self, batch: Sequence[CheckedRow]) -> None:
        """Compare the next rows of the output's dataDef."""
        if self.problem or not batch:
            return
        expected = self._reader.expect([(row.id, row.data) for row in batch if row.data is not None])
        present = self._reader.read(self._last, batch[-1].id)
        self._last = batch[-1].id
        for row in batch:
            self._row += 1
            stored = present.pop(row.id, None)
            if (row.data is None and (stored is not None or self._only_new)) or stored == expected.get(row.id, ""):
                continue
            place = f"row {self._row:,} {'is missing' if stored is None else 'differs'}"
            self.differences.setdefault(row.group, Difference(place)).count += 1
            if sum(difference.count for difference in self.differences.values()) > MAX_DIFFERENCES:
                self.problem = f"output {self._name}: more than {MAX_DIFFERENCES} rows differ, at last {place}"
                return
        if present:
            self._report_surplus(len(present))

    def finish(self) -> None:
        """Compare the end of the table with that of the rows."""
        if not self.problem and (surplus := self._reader.read(self._last, self._end)):
            self._report_surplus(len(surplus))

    def close(self) -> None:
        """Close the database."""
        self._reader.close()

    def _report_surplus(self, count: int) -> None:
        self.surplus = f"output {self._name}: {count:,} {'row is' if count == 1 else 'rows are'} no row of the run"
