"""The output type `xlsx`: the kinds of its cells, what does not fit, its limits and its bytes."""

import io
import json
import logging
import zipfile
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from typing import Any

import pytest
from openpyxl import load_workbook
from openpyxl.utils.escape import unescape

from crawl_engine.append.formats import xlsx
from crawl_engine.append.formats.column_types import column_types
from crawl_engine.append.formats.xlsx import MAX_TEXT, XlsxEncoder
from crawl_engine.errors import StorageError, UsageError
from crawl_engine.model.definition import Field

FIELDS = (
    Field(name="title"),
    Field(name="count", type="int"),
    Field(name="weight", type="decimal"),
    Field(name="sold", type="bool"),
    Field(name="day", type="date", format="%d.%m.%Y"),
    Field(name="moment", type="date", format="%d.%m.%Y %H:%M"),
    Field(name="instant", type="date", format="%d.%m.%Y %H:%M %z"),
    Field(name="price", type="price"),
    Field(name="tags", all=True, join="; "),
    Field(name="days", type="date", format="%Y", all=True),
)
COLUMNS = [field.name for field in FIELDS]


def encode(rows: Iterable[str], step: int = 100) -> bytes:
    types = json.loads(json.dumps(column_types({field.name: field for field in FIELDS})))
    encoder, rows = XlsxEncoder(COLUMNS, types, {"tags": "; "}), list(rows)
    parts = [encoder.header()]
    parts += [encoder.rows(rows[at : at + step]) for at in range(0, len(rows), step)]
    return b"".join([*parts, encoder.footer()])


def cells(data: bytes) -> list[list[Any]]:
    with closing(load_workbook(io.BytesIO(data))) as book:
        assert len(book.worksheets) == 1
        return [list(row) for row in book.active.iter_rows()]


def read_cell(column: str, value: str) -> Any:
    """The cell of a JSON value."""
    last = '"count":1' if column != "count" else '"title":"t"'
    header, row = cells(encode([f'{{{last},"{column}":{value}}}']))
    assert [cell.value for cell in header] == COLUMNS
    return row[COLUMNS.index(column)]


@pytest.mark.parametrize(
    ("column", "value", "kind", "expected"),
    [
        ("title", '"a"', "inlineStr", "a"),
        ("title", '"=1+1"', "inlineStr", "=1+1"),
        ("title", '"https://shop.example/"', "inlineStr", "https://shop.example/"),
        ("title", '"0042"', "inlineStr", "0042"),
        ("title", "7", "n", 7),
        ("title", "null", "n", None),
        ("title", '""', "n", None),
        ("count", "-12", "n", -12),
        ("count", "123456789012345", "n", 123456789012345),
        ("count", "1234567890123456", "inlineStr", "1234567890123456"),
        ("count", '"many"', "inlineStr", "many"),
        ("weight", "1116.90", "n", 1116.9),
        ("weight", "0.10000000000000001", "inlineStr", "0.10000000000000001"),
        ("weight", "1e400", "inlineStr", "1e400"),
        ("weight", "1.50e3", "n", 1500),
        ("sold", "true", "b", True),
        ("sold", "false", "b", False),
        ("day", '"2024-01-31"', "d", datetime(2024, 1, 31)),
        ("day", '"1899-12-31"', "inlineStr", "1899-12-31"),
        ("day", '"soon"', "inlineStr", "soon"),
        ("moment", '"2024-01-31T09:05:00"', "d", datetime(2024, 1, 31, 9, 5)),
        ("instant", '"2024-01-31T09:05:00+02:00"', "d", datetime(2024, 1, 31, 7, 5)),
        ("price", '{"amount":1116.90,"currency":"EUR"}', "inlineStr", '{"amount":1116.90,"currency":"EUR"}'),
        ("tags", '["a","b",1.50]', "inlineStr", "a; b; 1.50"),
        ("tags", "[]", "n", None),
        ("days", '["2024-01-01"]', "inlineStr", "2024-01-01"),
    ],
)
def test_the_kind_of_a_cell(column: str, value: str, kind: str, expected: Any) -> None:
    cell = read_cell(column, value)
    assert (cell.data_type.replace("s", "inlineStr") if cell.data_type == "s" else cell.data_type) == kind
    assert cell.value == expected
    assert cell.hyperlink is None


def test_dates_are_shown_as_they_are_written() -> None:
    assert read_cell("day", '"2024-01-31"').number_format == "yyyy-mm-dd"
    assert read_cell("moment", '"2024-01-31T09:05:00"').number_format == "yyyy-mm-dd hh:mm:ss"


@pytest.mark.parametrize("text", ["a\nb\r\nc\t", "\0\x01\x1f", "_x0041_", "<&>\"'", " a  b ", "\ufffe☃😀"])
def test_any_text_is_read_as_it_was(text: str) -> None:
    assert unescape(read_cell("title", json.dumps(text)).value) == text


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert read_cell("title", '"a\\ud800b"').value == "a?b"


@pytest.mark.parametrize(
    ("text", "kept"), [("x" * MAX_TEXT, MAX_TEXT), ("x" * 40_000, MAX_TEXT), ("😀" * 20_000, 16_383)]
)
def test_a_long_text_is_cut_and_told(text: str, kept: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert read_cell("title", json.dumps(text)).value == text[:kept]
    told = "texts are cut at 32,767 characters in xlsx; exports as jsonl have all: title (1)"
    assert [record.message for record in caplog.records] == ([told] if kept < len(text) else [])


def test_more_rows_than_a_sheet_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "MAX_ROWS", 4)
    assert len(cells(encode(["{}"] * 3))) == 1, "rows without a cell"
    with pytest.raises(StorageError, match=r"more than 3 rows.*; write csv or parquet"):
        encode(['{"title":"a"}'] * 4)


def test_more_columns_than_a_sheet_holds_are_refused() -> None:
    with pytest.raises(StorageError, match="16,385 columns"):
        XlsxEncoder([f"c{number}" for number in range(16_385)], {}).header()


def test_equal_rows_give_equal_bytes_however_they_are_divided() -> None:
    rows = [f'{{"title":"t{number}","count":{number},"day":"2024-01-01"}}' for number in range(50)]
    assert encode(rows) == encode(rows, step=7)
    with zipfile.ZipFile(io.BytesIO(encode(rows))) as archive:
        assert {info.date_time[0] for info in archive.infolist()} == {1980}


def test_a_file_can_be_begun_again() -> None:
    encoder = XlsxEncoder(["a"], {})
    whole = [encoder.header() + encoder.rows(['{"a":1}']) + encoder.footer() for _ in range(2)]
    encoder.header()
    encoder.rows(['{"a":2}'])
    assert whole[0] == whole[1]
    assert encoder.header() + encoder.rows(['{"a":1}']) + encoder.footer() == whole[0]


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl_engine.runtime.extras.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="needs xlsxwriter") as raised:
        XlsxEncoder(["a"], {})
    assert "crawl-console[xlsx]" in raised.value.remedy
