"""Compares an output file that is a stream of bytes with the rows that it must hold."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from engine.append.formats.file_writer import FileFormat
from engine.append.formats.writer import RowEncoder, load_format
from engine.store.tables.output.outputs import Output

_PIECE_BYTES = 64 * 1024
_MAX_RECORD_BYTES = 64 * 1024 * 1024
MAX_DIFFERENCES = 100
"""A file with more is not compared to its end: it is written again as a whole."""
_LOOKAHEAD = 64
"""Rows or records that are searched for where both continue after a difference."""


class CheckedRow(NamedTuple):
    """A row of an output; `data`: its JSON, None if the row itself is damaged."""

    id: int
    group: str
    data: str | None


class Difference(Struct):
    """The first place where an output differs from the rows of a group, and how many there are."""

    place: str
    count: int = 0

    @property
    def text(self) -> str:
        """For a reason."""
        return self.place if self.count == 1 else f"{self.place}, and {self.count - 1:,} more"


class FileCheck:
    """Compares one file with rows that come in order. Raises OSError."""

    def __init__(self, output: Output, *, is_final: bool) -> None:
        """`is_final`: nothing will be written behind what is recorded."""
        format_ = load_format(output.type)
        self._is_quoted = isinstance(format_, FileFormat) and format_.is_quoted
        encoder = format_.create_encoder(output.settings)
        assert encoder is not None, "a database is compared by TableCheck"
        self._encoder: RowEncoder = encoder
        self._only_new = "only_new" in output.settings
        self._name = Path(output.path).name
        self._size = output.bytes
        self._fd = os.open(output.path, os.O_RDONLY | os.O_CLOEXEC)
        self._at, self._line, self._row = 0, 1, 0
        self.differences: dict[str, Difference] = {}
        """By group: where the file differs from its rows."""
        self.surplus = ""
        """What it has that is no row: whose it was is not known."""
        self.problem = ""
        """What concerns the whole file."""
        self._check_start(output, is_final=is_final)

    def check(self, batch: Sequence[CheckedRow]) -> None:
        """Compare the next rows of the output's dataDef."""
        if self.problem:
            return
        texts = [row.data for row in batch if row.data is not None]
        if len(texts) == len(batch):
            expected = self._encoder.rows(texts)
            if self._read(len(expected), self._at) == expected:
                self._skip(expected)
                self._row += len(batch)
                return
        encoded = [None if row.data is None else self._encoder.rows([row.data]) for row in batch]
        for position, row in enumerate(batch):
            self._row += 1
            if not self._check_row(row, encoded[position], encoded[position + 1 : position + 1 + _LOOKAHEAD]):
                return

    def finish(self) -> None:
        """Compare the end of the file with that of the rows."""
        if not self.problem and self._at != self._size:
            self.surplus = self.surplus or f"output {self._name}: its rows end at byte {self._at:,} of {self._size:,}"

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _check_start(self, output: Output, *, is_final: bool) -> None:
        length = os.fstat(self._fd).st_size
        header = self._encoder.header()
        if length < output.bytes or (is_final and length > output.bytes):
            self.problem = f"output {self._name}: {length:,} bytes instead of {output.bytes:,}"
        elif self._read(len(header), 0) != header:
            self.problem = f"output {self._name}: its header differs"
        else:
            self._skip(header)

    def _check_row(self, row: CheckedRow, expected: bytes | None, following: Sequence[bytes | None]) -> bool:
        """Compare one row, and find where the file continues; False if too much of it differs."""
        if expected is not None and self._read(len(expected), self._at) == expected:
            self._skip(expected)
            return True
        record = self._read_record(self._at)
        if expected is None:  # what the line was made of is not known
            if not (self._only_new and record in following):
                self._skip(record)
            return True
        passed = b"" if record in following else self._find_surplus(expected, following)
        if passed:
            self.surplus = self.surplus or f"output {self._name}: line {self._line:,} is no row of the run"
            self._skip(passed)
            return True
        place = f"line {self._line:,} is not row {self._row:,}"
        self.differences.setdefault(row.group, Difference(place)).count += 1
        if sum(difference.count for difference in self.differences.values()) > MAX_DIFFERENCES:
            self.problem = f"output {self._name}: more than {MAX_DIFFERENCES} lines differ, at last {place}"
            return False
        if record not in following:  # else the file lacks the row
            self._skip(record)
        return True

    def _find_surplus(self, expected: bytes, following: Sequence[bytes | None]) -> bytes:
        """The next lines up to that of a row, where there are lines that are no rows; empty if they lead nowhere."""
        passed = b""
        for _ in range(_LOOKAHEAD):
            record = self._read_record(self._at + len(passed))
            passed += record
            if record == expected:
                return passed
            if not record or record in following:
                break
        return b""

    def _read_record(self, at: int) -> bytes:
        """The line at an offset, with the line breaks that it quotes; empty at the end."""
        record = b""
        while len(record) < _MAX_RECORD_BYTES:
            piece = self._read(_PIECE_BYTES, at + len(record))
            start = len(record)
            record += piece
            while (end := record.find(b"\n", start) + 1) > 0:
                if not self._is_quoted or record.count(b'"', 0, end) % 2 == 0:
                    return record[:end]
                start = end
            if not piece:
                break
        return record[: record.find(b"\n") + 1] or record

    def _read(self, length: int, at: int) -> bytes:
        """Bytes of the file as far as it is recorded."""
        length = min(length, self._size - at)
        pieces = []
        while length > 0 and (piece := os.pread(self._fd, length, at)):
            pieces.append(piece)
            at, length = at + len(piece), length - len(piece)
        return b"".join(pieces)

    def _skip(self, data: bytes) -> None:
        self._at += len(data)
        self._line += data.count(b"\n")
