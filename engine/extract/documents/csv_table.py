"""CSV: a document of rows below a header, with the delimiter that its first rows show."""

import csv
from collections.abc import Iterator
from io import StringIO
from itertools import islice

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


def read_csv(text: str) -> tuple[list[dict[str, str]], int]:
    """The rows by the names of their columns, and the number of faulty rows.

    Faulty rows are unreadable ones, which are skipped, and rows of another length than the header. Extra cells are
    dropped, missing ones absent. A column without a name of its own is `column3` by its number.
    """
    text = text.removeprefix("\ufeff").replace("\0", "\ufffd")
    delimiter, text = _split_delimiter(text)
    lines = _read_rows(text, delimiter)
    header = next((row for row in lines if row), [])
    if not header or len(header) > _MAX_COLUMNS:
        return [], len(header)
    names = _name_columns(header)
    rows: list[dict[str, str]] = []
    faulty = 0
    for row in lines:
        if row is None:
            faulty += 1
        elif row:
            faulty += len(row) < len(names) or any(row[len(names) :])
            rows.append(dict(zip(names, row, strict=False)))
    return rows, faulty


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


def _split_delimiter(text: str) -> tuple[str, str]:
    """The delimiter of a document, and its text without Excel's line `sep=;`, which names the delimiter."""
    if text[:4].lower() == "sep=" and text[4:5] in _DELIMITERS and text[5:6] in ("\r", "\n"):
        return text[4], text[5:]
    scores = {delimiter: _score(text, delimiter) for delimiter in _DELIMITERS}
    return max(_DELIMITERS, key=scores.__getitem__), text


def _score(text: str, delimiter: str) -> tuple[int, int]:
    """How many of the first rows are as long as the header, and this length; 0 if no line has the delimiter."""
    sample = text[:_SAMPLE_CHARACTERS]
    rows = [row for row in islice(_read_rows(sample, delimiter), _SAMPLE_ROWS) if row]
    width = len(rows[0]) if rows else 0
    return (sum(len(row) == width for row in rows), width) if width > 1 else (0, 0)


def _name_columns(header: list[str]) -> list[str]:
    names: dict[str, None] = {}
    for number, cell in enumerate(header, 1):
        name = " ".join(cell.split())
        if not name or name in names:
            name = f"column{number}"
        while name in names:
            name += "_"
        names[name] = None
    return [*names]
