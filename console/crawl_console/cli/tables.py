"""Writes rows to stdout as an aligned table or as CSV, batch by batch."""

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from crawl_console.cli.output import open_stdout, write_lines

_BATCH_ROWS, _MAX_CELL_WIDTH = 200, 80


def write_table(headings: Sequence[Sequence[str]], rows: Iterable[Sequence[str]]) -> None:
    """Write an aligned table; the rows of the first batch set the widths of its columns."""
    rest = iter(rows)
    sample = [list(cells) for cells in (*headings, *islice(rest, _BATCH_ROWS))]
    widths = [max(map(len, column)) for column in zip(*sample, strict=True)]
    sample.insert(len(headings), ["─" * width for width in widths])
    while batch := sample or [list(cells) for cells in islice(rest, _BATCH_ROWS)]:
        write_lines(*("  ".join(map(str.ljust, cells, widths)).rstrip() for cells in batch))
        sample = []


def shorten_cell(text: str) -> str:
    """A text as a cell of a table: cut to 80 characters."""
    return text if len(text) <= _MAX_CELL_WIDTH else text[: _MAX_CELL_WIDTH - 1] + "…"


def write_csv(rows: Iterable[Sequence[Any]]) -> None:
    """Write CSV in UTF-8; the first row is its header. None becomes an empty field."""
    rest, stdout = iter(rows), open_stdout()
    while batch := list(islice(rest, _BATCH_ROWS)):
        text = io.StringIO(newline="")
        csv.writer(text).writerows(batch)
        stdout.write(text.getvalue().encode("utf-8", "replace"))
    stdout.flush()
