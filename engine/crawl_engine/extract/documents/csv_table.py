"""CSV: a document of rows below a header, which the names of its columns show, and the delimiter."""

import csv
from collections.abc import Collection, Iterator, Sequence
from io import StringIO
from itertools import islice
from typing import NamedTuple

_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_CHARACTERS = 16_384
_SAMPLE_ROWS = 20
_MAX_CELL = 2**31 - 1
_LARGE_CELL = 131_072
"""A longer cell may lack its closing quote; then its row is skipped and reading continues on the next line."""
_LAST_CHARACTERS = 100
"""Characters of such a cell that are compared with the end of the document."""
_MAX_COLUMNS = 10_000
"""A wider header is not read as a table: each row has a mapping of its columns."""


class CsvTable(NamedTuple):
    rows: list[dict[str, str]]
    """By the names of their columns. One without a name of its own is `column3` by its number."""
    faulty: int
    """Unreadable rows, which are skipped, and rows of another length than the header: extra cells are dropped, missing
    ones absent."""
    columns: Sequence[str]
    """Empty: there is no header."""


class _Header(NamedTuple):
    delimiter: str
    line: int
    """Rows in front of it, blank ones included."""


def read_csv(text: str, line: int | None = None, wanted: Collection[str] = ()) -> CsvTable:
    """The rows below the header.

    That is at `line`, from 1; else the one of the first rows that has the most of the `wanted` columns; else the first.
    """
    text = text.removeprefix("\ufeff").replace("\0", "\ufffd")
    delimiters, text = _split_delimiter(text)
    delimiter, before = _find_header(text, delimiters, line, {*wanted})
    lines = islice(_read_rows(text, delimiter), before, None)
    header = next(lines, None) if line is not None else next((row for row in lines if row), None)
    if not header or len(header) > _MAX_COLUMNS:
        return CsvTable([], len(header or ()), ())
    names = _name_columns(header)
    rows: list[dict[str, str]] = []
    faulty = 0
    for row in lines:
        if row is None:
            faulty += 1
        elif row:
            faulty += len(row) < len(names) or any(row[len(names) :])
            rows.append(dict(zip(names, row, strict=False)))
    return CsvTable(rows, faulty, names)


def _read_rows(text: str, delimiter: str) -> Iterator[list[str] | None]:
    """The cells of each row: empty for a blank row, None for one that cannot be read."""
    lines = csv.reader(StringIO(text, newline=""), delimiter=delimiter)
    read = 0
    for row in _read_all(lines, _MAX_CELL):
        if row and len(row[-1]) > _LARGE_CELL and _is_open_at_end(row[-1], text):
            rest = islice(StringIO(text, newline=""), read, None)
            yield from _read_all(csv.reader(rest, delimiter=delimiter), _LARGE_CELL)
            return
        yield row
        read = lines.line_num


def _read_all(reader: Iterator[list[str]], most: int) -> Iterator[list[str] | None]:
    """The rows; a cell of more than `most` characters makes its row unreadable up to the end of its line."""
    while True:
        csv.field_size_limit(most)  # a setting of the process
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield None


def _is_open_at_end(cell: str, text: str) -> bool:
    """Whether the quote of a cell never ends: the cell reaches the end of the document."""
    return not text.rstrip("\r\n").endswith('"') and text.endswith(cell[-_LAST_CHARACTERS:])


def _split_delimiter(text: str) -> tuple[Sequence[str], str]:
    """The possible delimiters of a document, and its text without Excel's line `sep=;`, which names the delimiter."""
    if text[:4].lower() == "sep=" and text[4:5] in _DELIMITERS and text[5:6] in ("\r", "\n"):
        return text[4], text[5:]
    return _DELIMITERS, text


def _find_header(text: str, delimiters: Sequence[str], line: int | None, wanted: set[str]) -> _Header:
    """Where the header is, by the names of its columns and the lengths of the rows below it."""
    sample = text if line is not None else text[:_SAMPLE_CHARACTERS]
    best, scored = _Header(delimiters[0], 0), (-1, 0, 0, 0)
    for delimiter in delimiters:
        first = 0 if line is None else line - 1
        rows = [*islice(_read_rows(sample, delimiter), first, first + _SAMPLE_ROWS)]
        at = next((index for index, row in enumerate(rows) if row), 0) if line is None else 0
        found = [len(wanted.intersection(map(_normalize, row or ()))) for row in rows]
        if line is None and wanted and max(found, default=0):
            at = found.index(max(found))
        score = (found[at] if rows else 0, -at if wanted and rows and found[at] else 0, *_score(rows[at:]))
        if score > scored:
            best, scored = _Header(delimiter, first + at), score
    return best


def _score(rows: Sequence[list[str] | None]) -> tuple[int, int]:
    """How many rows are as long as the header, the first one, and this length; 0 if no line has the delimiter."""
    width = len(rows[0] or ()) if rows else 0
    return (sum(len(row or ()) == width for row in rows), width) if width > 1 else (0, 0)


def _normalize(name: str) -> str:
    return " ".join(name.split())


def _name_columns(header: list[str]) -> list[str]:
    names: dict[str, None] = {}
    for number, cell in enumerate(header, 1):
        name = _normalize(cell)
        if not name or name in names:
            name = f"column{number}"
        while name in names:
            name += "_"
        names[name] = None
    return [*names]
