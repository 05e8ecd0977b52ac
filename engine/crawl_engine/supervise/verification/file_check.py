"""Compares one output, a stream of bytes or a table, with its expected rows."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from crawl_engine.append.formats.compression import DecompressionFailed, decompress_into
from crawl_engine.append.formats.file_writer import FileFormat
from crawl_engine.append.formats.sqlite import TableReader, table_of
from crawl_engine.append.formats.writer import RowEncoder, load_format
from crawl_engine.store.tables.output.outputs import Output

_PIECE_BYTES = 64 * 1024
_MAX_RECORD_BYTES = 64 * 1024 * 1024
_MAX_DIFFERENCES = 100
"""The comparison of a file ends early after so many."""
_LOOKAHEAD = 64
"""Rows or records that are searched after a difference for the place where both continue."""
_BEFORE_ALL = -(2**63)

CheckedRow = tuple[int, str | None]
"""The id of a row, and its JSON; None if the row itself is damaged."""


class _Differences:
    """Where an output differs: the first place, and how many there are."""

    def __init__(self, output: Output) -> None:
        self._only_new = "only_new" in output.settings
        self._row = 0
        self._first, self._count, self._surplus, self._problem = "", 0, "", ""

    @property
    def reason(self) -> str:
        """Why the output is invalid, or an empty text."""
        more = f", and {self._count - 1:,} more" if self._count > 1 else ""
        return self._problem or ", ".join(filter(None, (self._first + more, self._surplus)))

    def _add(self, place: str) -> None:
        self._first, self._count = self._first or place, self._count + 1
        if self._count > _MAX_DIFFERENCES:
            self._problem = f"{self._first}, and more than {_MAX_DIFFERENCES:,} other differences"


def _decompress(fd: int, output: Output) -> int | None:
    """Replace an open file by a temporary one with its decompressed bytes; returns their number, None if damaged."""
    if "compression" not in output.settings:
        return output.bytes
    with tempfile.TemporaryFile() as target:
        try:
            with os.fdopen(os.dup(fd), "rb") as source:
                decompress_into(source, output.settings["compression"], target, length=output.bytes)
        except DecompressionFailed:
            return None
        target.flush()
        os.dup2(target.fileno(), fd, inheritable=False)
        return target.tell()


class FileCheck(_Differences):
    """Compares one file with rows that come in order. Raises OSError."""

    def __init__(self, output: Output, encoder: RowEncoder, *, is_final: bool) -> None:
        """`is_final`: nothing will be written behind the recorded part."""
        super().__init__(output)
        format_ = load_format(output.type)
        self._is_quoted = isinstance(format_, FileFormat) and format_.is_quoted
        self._encoder = encoder
        self._size = output.bytes
        self._at, self._line = 0, 1
        self._fd = os.open(output.path, os.O_RDONLY | os.O_CLOEXEC)
        length, header = os.fstat(self._fd).st_size, encoder.header()
        if length < output.bytes or (is_final and length > output.bytes):
            self._problem = f"{length:,} bytes instead of {output.bytes:,}"
        elif (size := _decompress(self._fd, output)) is None:
            self._problem = f"it is not whole {output.settings['compression']} data"
        else:
            self._size = size
            if self._read(len(header), 0) != header:
                self._problem = "its header differs"
            else:
                self._skip(header)

    def check(self, batch: Sequence[CheckedRow]) -> None:
        """Compare the next rows of the output's dataDef."""
        if self._problem:
            return
        texts = [text for _, text in batch if text is not None]
        if len(texts) == len(batch):
            expected = self._encoder.rows(texts)
            if self._read(len(expected), self._at) == expected:
                self._skip(expected)
                self._row += len(batch)
                return
        encoded = [None if text is None else self._encoder.rows([text]) for _, text in batch]
        for position, expected_row in enumerate(encoded, 1):
            self._row += 1
            self._check_row(expected_row, encoded[position : position + _LOOKAHEAD])
            if self._count > _MAX_DIFFERENCES:
                return

    def finish(self) -> None:
        """Compare the end of the file with that of the rows."""
        if self._at != self._size:
            self._surplus = self._surplus or f"its rows end at byte {self._at:,} of {self._size:,}"

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _check_row(self, expected: bytes | None, following: Sequence[bytes | None]) -> None:
        """Compare one row, and find where the file continues."""
        if expected is not None and self._read(len(expected), self._at) == expected:
            self._skip(expected)
            return
        record = self._read_record(self._at)
        if expected is None:  # the row is damaged, so its line is unknown
            if not (self._only_new and record in following):
                self._skip(record)
            return
        passed = b"" if record in following else self._find_surplus(expected, following)
        if passed:
            self._surplus = self._surplus or f"line {self._line:,} is not a row of the run"
            self._skip(passed)
            return
        self._add(f"line {self._line:,} is not row {self._row:,}")
        if record not in following:  # otherwise the file lacks the row
            self._skip(record)

    def _find_surplus(self, expected: bytes, following: Sequence[bytes | None]) -> bytes:
        """The lines up to that of a row, if lines of no row stand before it; empty if they lead nowhere."""
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
        """Bytes of the recorded part of the file."""
        return _read_all(self._fd, min(length, self._size - at), at)

    def _skip(self, data: bytes) -> None:
        self._at += len(data)
        self._line += data.count(b"\n")


class WholeCheck(_Differences):
    """Compares one file that is written whole with rows that come in order, byte by byte. Raises OSError.

    It can be compared only as long as no row is damaged.
    """

    def __init__(self, output: Output, encoder: RowEncoder) -> None:
        super().__init__(output)
        self._encoder = encoder
        self._at = self._size = 0
        self._fd = os.open(output.path, os.O_RDONLY | os.O_CLOEXEC)
        length = os.fstat(self._fd).st_size
        if length != output.bytes:
            self._problem = f"{length:,} bytes instead of {output.bytes:,}"
        elif (size := _decompress(self._fd, output)) is None:
            self._problem = f"it is not whole {output.settings['compression']} data"
        else:
            self._size = size
        self._compare(encoder.header())

    def check(self, batch: Sequence[CheckedRow]) -> None:
        """Compare the next rows of the output's dataDef."""
        self._compare(self._encoder.rows(text for _, text in batch if text is not None))

    def finish(self) -> None:
        """Compare the end of the file with that of the rows."""
        self._compare(self._encoder.footer())
        if not self._problem and self._at != self._size:
            self._problem = f"its rows end at byte {self._at:,} of {self._size:,}"

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _compare(self, expected: bytes) -> None:
        if self._problem:
            return
        found = _read_all(self._fd, len(expected), self._at)
        if found != expected:
            pairs = zip(found, expected, strict=False)
            equal = next((at for at, (left, right) in enumerate(pairs) if left != right), len(found))
            self._problem = f"it differs from its rows at byte {self._at + equal:,}"
        self._at += len(expected)


class TableCheck(_Differences):
    """Compares one table of a database with rows that come in order. Raises StorageError."""

    def __init__(self, output: Output, *, run: str) -> None:
        """`run`: the run's id."""
        super().__init__(output)
        self._reader = TableReader(Path(output.path), table_of(output))
        self._last, self._end = _BEFORE_ALL, output.cursor
        if not self._reader.has_table(run):
            self._problem = f"has no table {output.data_def} of this run"

    def check(self, batch: Sequence[CheckedRow]) -> None:
        """Compare the next rows of the output's dataDef."""
        if self._problem or not batch:
            return
        expected = self._reader.expect([(id_, text) for id_, text in batch if text is not None])
        last = batch[-1][0]
        present = self._reader.read(self._last, last)
        self._last = last
        for id_, text in batch:
            self._row += 1
            stored = present.pop(id_, None)
            if (text is None and (stored is not None or self._only_new)) or stored == expected.get(id_, ""):
                continue
            self._add(f"row {self._row:,} {'is missing' if stored is None else 'differs'}")
        if present:
            self._add_surplus(len(present))

    def finish(self) -> None:
        """Compare the end of the table with that of the rows."""
        if not self._problem and (surplus := self._reader.read(self._last, self._end)):
            self._add_surplus(len(surplus))

    def close(self) -> None:
        """Close the database."""
        self._reader.close()

    def _add_surplus(self, count: int) -> None:
        self._surplus = f"{count:,} {'row is' if count == 1 else 'rows are'} no row of the run"


def _read_all(fd: int, length: int, at: int) -> bytes:
    """The bytes at an offset, fewer at the end of the file."""
    pieces = []
    while length > 0 and (piece := os.pread(fd, length, at)):
        pieces.append(piece)
        at, length = at + len(piece), length - len(piece)
    return b"".join(pieces)
