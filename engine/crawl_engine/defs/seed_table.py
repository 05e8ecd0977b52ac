"""Reads seeds from CSV files: a header, and a line for each seed, whose values fill `%{seed.NAME}`."""

import codecs
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from crawl_engine.defs.url_list import ListPosition, UrlList, require_utf8, shown_path, unreadable
from crawl_engine.errors import UsageError, plural
from crawl_engine.model.locator import SeedColumns

_MAX_RECORD_LINES = 100
"""Lines of a record with line breaks in quotes: a quote that is not closed must not hide the rest of the file."""

SeedRow = tuple[int, Mapping[str, str] | str]
"""The line of a record, and its values by column; or why it cannot be used."""


class SeedTable(UrlList):
    """The records of a CSV file from a position on; the position is before the record that was given last."""

    def __init__(self, path: str, columns: SeedColumns) -> None:
        super().__init__(path)
        self._columns = columns

    def read_rows(self, position: ListPosition, stamp: str) -> Iterator[SeedRow]:
        """The records behind `position`, of a file with that stamp; of another file, all. Raises ListUnreadable.

        Raises UsageError on a header that cannot be used.
        """
        try:
            with Path(self.path).open("rb") as file:
                position = self.start(file, position, stamp)
                file.seek(0)
                lines = _RecordLines(file)
                header = _read_header(self.path, lines, self._columns)
                if position > lines.position:
                    lines.seek(position)
                yield from self._read_records(header, lines)
        except OSError as error:
            raise unreadable(self.path, error) from error

    def _read_records(self, header: Sequence[str], lines: "_RecordLines") -> Iterator[SeedRow]:
        delimiter = self._columns.delimiter
        while True:
            self.position = lines.position
            number = lines.position.line + 1
            fields = _read_record(lines, delimiter)
            if fields is None:
                return
            if isinstance(fields, str):
                yield number, fields
            elif not any(fields):
                continue
            elif len(fields) != len(header):
                yield number, f"{plural(len(fields), 'column')}, and the header has {len(header)}"
            else:
                yield number, dict(zip(header, fields, strict=True))


def read_header(path: str, columns: SeedColumns) -> tuple[str, ...]:
    """The names of the columns; those without a name are empty texts. Raises UsageError, OSError."""
    with Path(path).open("rb") as file:
        require_utf8(path, file.read(2))
        file.seek(0)
        return _read_header(path, _RecordLines(file), columns)


class _RecordLines:
    """The lines of a file; those of a torn record are read again."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._again: deque[bytes] = deque()
        self.position = ListPosition()

    def seek(self, position: ListPosition) -> None:
        self._file.seek(position.offset)
        self.position = position

    def skip(self, start: bytes) -> None:
        """Skip these bytes at the start of the file."""
        if self._file.read(len(start)) == start:
            self.position = ListPosition(len(start))
        else:
            self._file.seek(0)

    def read(self) -> bytes:
        """The next line with its end; empty at the end of the file."""
        raw = self._again.popleft() if self._again else self._file.readline()
        if raw:
            offset, line = self.position
            self.position = ListPosition(offset + len(raw), line + 1)
        return raw

    def give_back(self, raws: Sequence[bytes]) -> None:
        """Read these lines, the last ones, again."""
        self._again.extendleft(reversed(raws))
        offset, line = self.position
        self.position = ListPosition(offset - sum(map(len, raws)), line - len(raws))


def _read_record(lines: _RecordLines, delimiter: str) -> list[str] | str | None:
    """The fields of the next record; or why it cannot be used; None at the end."""
    raw = lines.read()
    if not raw:
        return None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return "the line is not UTF-8"
    bare = text.rstrip("\r\n")
    if '"' not in bare and "\r" not in bare:
        return bare.split(delimiter)
    import csv

    more: list[bytes] = []

    def feed() -> Iterator[str]:
        yield text
        while len(more) < _MAX_RECORD_LINES and (following := lines.read()):
            more.append(following)
            yield following.decode()

    try:
        return next(csv.reader(feed(), delimiter=delimiter, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        lines.give_back(more)
        if more or "unexpected end" in str(error):
            return "a quote is not closed"
        if "new-line" in str(error):
            return "a carriage return stands outside quotes; end lines with a line feed"
        return f"the line is torn: {error}"


def _read_header(path: str, lines: _RecordLines, columns: SeedColumns) -> tuple[str, ...]:
    shown = shown_path(path)
    remedy = "Give the file a header: the names of its columns, in UTF-8."
    lines.skip(codecs.BOM_UTF8)
    fields = _read_record(lines, columns.delimiter)
    if fields is None or isinstance(fields, str):
        raise UsageError(f"{shown}:1: {fields or 'the file is empty'}", remedy)
    names = tuple(name.strip() for name in fields)
    if not any(names):
        raise UsageError(f"{shown}:1: no column has a name", remedy)
    for position, name in enumerate(names):
        if name and name in names[:position]:
            raise UsageError(f"{shown}:1: two columns have the name '{name}'", "Rename one of them.")
    return names
