"""Output types encode rows without loss."""

import csv
import io
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.append.formats import row_json
from crawl_engine.append.formats.csv import CsvEncoder
from crawl_engine.append.formats.jsonl import JsonlEncoder
from crawl_engine.append.formats.row_json import NumberLiteral
from crawl_engine.append.formats.sqlite import OutputTable
from crawl_engine.append.formats.writer import create_encoder, create_writer, load_format
from crawl_engine.errors import CrawlError
from crawl_engine.model.output_type import OUTPUT_TYPES, output_type_of
from crawl_engine.model.record import to_text
from crawl_engine.store.db.sqlite import sqlite3
from crawl_engine.store.tables.output.outputs import Output

texts = st.text(st.characters(exclude_categories=["Cs"]))
decimals = st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**12), max_value=10**12)
plain = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | texts | decimals
values = plain | st.lists(plain) | st.lists(st.dictionaries(texts, plain))
records = st.dictionaries(texts, values, max_size=6)


def as_stored(row: dict[str, Any]) -> str:
    """A row as nodes store it: decimals are JSON numbers."""

    def literal(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: literal(item) for key, item in value.items()}
        if isinstance(value, list):
            return [literal(item) for item in value]
        if isinstance(value, Decimal) or (isinstance(value, int) and not isinstance(value, bool)):
            return orjson.Fragment(f"{value:f}" if isinstance(value, Decimal) else str(value))
        return value

    return orjson.dumps(literal(row)).decode()


def read_csv(data: bytes, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline=""), delimiter=delimiter, strict=True))


@given(st.lists(records, max_size=5), st.lists(texts, min_size=1, max_size=6, unique=True), st.sampled_from(",;\t|"))
def test_csv_has_the_text_of_every_field(rows: list[dict[str, Any]], columns: list[str], delimiter: str) -> None:
    encoder = CsvEncoder(columns, {columns[0]: "/"}, delimiter)
    decoded = read_csv(encoder.header() + encoder.rows(map(as_stored, rows)), delimiter)
    assert decoded[0] == columns
    joins = {columns[0]: "/"}
    assert decoded[1:] == [[to_text(row.get(c), joins.get(c, "|")) for c in columns] for row in rows]


@given(records, st.lists(texts, max_size=6, unique=True))
def test_jsonl_has_the_declared_fields_in_order_with_their_digits(row: dict[str, Any], columns: list[str]) -> None:
    line = JsonlEncoder(columns).rows([as_stored(row)]).decode()
    assert line.endswith("\n")
    assert "\n" not in line[:-1]
    decoded = json.loads(line, parse_float=Decimal)
    assert list(decoded.items()) == [(c, row[c]) for c in columns if c in row]
    assert list(map(str, numbers(decoded))) == [str(n) for c in columns if c in row for n in numbers(row[c])]


def numbers(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [n for item in value.values() for n in numbers(item)]
    if isinstance(value, list):
        return [n for item in value for n in numbers(item)]
    return [value] if isinstance(value, Decimal) else []


@given(records)
def test_split_fields_returns_the_json_of_each_field(row: dict[str, Any]) -> None:
    text = as_stored(row)
    assert json.loads(text) == {key: json.loads(part) for key, part in row_json.split_fields(text).items()}
    assert (
        "{" + ",".join(f"{orjson.dumps(k).decode()}:{v}" for k, v in row_json.split_fields(text).items()) + "}" == text
    )


def test_split_fields_accepts_spaces() -> None:
    assert row_json.split_fields(' { "a" : [1, 2] ,\n "b":{"c" : "}"} } ') == {"a": "[1, 2]", "b": '{"c" : "}"}'}
    assert row_json.split_fields("{ }") == {}


def test_jsonl_keeps_a_stored_row_unchanged() -> None:
    row = '{"price":12.50,"big":123456789012345678901234567890,"tiny":1e-400}'
    assert JsonlEncoder(["price", "big", "tiny"]).rows([row]) == row.encode() + b"\n"
    assert JsonlEncoder(["tiny", "price"]).rows([row]) == b'{"tiny":1e-400,"price":12.50}\n'


def test_line_breaks_between_tokens_do_not_break_the_line() -> None:
    assert JsonlEncoder(["a"]).rows(['{"a":\n[1,\r\n2]}']) == b'{"a": [1,  2]}\n'


def test_csv_lines_end_in_crlf_and_are_quoted_where_needed() -> None:
    encoder = CsvEncoder(["a", "b"])
    assert encoder.header() == b"a,b\r\n"
    assert encoder.rows(['{"a":"x\\ry","b":"p\\"q"}', '{"a":"1,5"}']) == b'"x\ry","p""q"\r\n"1,5",\r\n'
    assert CsvEncoder(["a"]).rows(["{}"]) == b'""\r\n'


def test_numbers_keep_their_digits_in_csv() -> None:
    row = '{"a":12.50,"b":1000000000000000000000,"c":[1.10,2],"d":[{"e":3.30}],"f":{"g":1e999999999}}'
    assert CsvEncoder(["a", "b", "c", "d", "f"]).rows([row]).decode() == (
        '12.50,1000000000000000000000,1.10|2,"[{""e"":3.30}]","{""g"":1e999999999}"\r\n'
    )


def test_a_lone_surrogate_is_replaced() -> None:
    row = '{"a":"x\\ud83dy"}'
    assert CsvEncoder(["a"]).rows([row]) == b"x?y\r\n"
    assert JsonlEncoder(["a"]).rows([row]) == row.encode() + b"\n"


@pytest.mark.parametrize(
    ("token", "number"),
    [
        ("5", 5), ("-7", -7), ("12.5", 12.5), ("12.50", "12.50"), ("0.1", 0.1), ("9" * 30, "9" * 30),
        ("0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"),
    ],
)  # fmt: skip
def test_a_number_is_bound_as_a_number_if_that_keeps_its_digits(token: str, number: Any) -> None:
    bound = NumberLiteral(token).to_value()
    assert bound == number
    assert type(bound) is type(number)


def test_a_table_keeps_declared_types() -> None:
    types = {"price": "decimal", "rate": "float", "n": "int", "ok": "bool", "name": "str"}
    table = OutputTable("t", list(types), None, types)
    db = sqlite3.connect(":memory:")
    db.execute(table.create_sql())
    db.execute(table.insert_sql(), table.bind_row(1, '{"price":5,"rate":2.50,"n":3,"ok":true,"name":"4"}'))
    db.execute(table.insert_sql(), table.bind_row(2, '{"price":12.50,"rate":7}'))
    assert db.execute("SELECT * FROM t").fetchall() == [(1, "5", 2.5, 3, 1, "4"), (2, "12.50", 7.0, None, None, None)]


def test_column_names_are_unique_without_regard_to_case() -> None:
    table = OutputTable('we"ird', ["Title", "title", "_id", "TITLE_2", 'q"'])
    db = sqlite3.connect(":memory:")
    db.execute(table.create_sql())
    db.execute(table.insert_sql(), table.bind_row(1, '{"Title":1,"title":2,"_id":3,"TITLE_2":4,"q\\"":5}'))
    cursor = db.execute('SELECT * FROM "we""ird"')
    assert [c[0] for c in cursor.description] == ["_id_2", "Title", "title_3", "_id", "TITLE_2", 'q"']
    assert cursor.fetchall() == [(1, 1, 2, 3, 4, 5)]


def test_each_output_type_has_its_module_and_its_own_suffixes() -> None:
    for name, type_ in OUTPUT_TYPES.items():
        assert type_.name == name
        assert load_format(name).create_writer
        # a .txt may hold anything: it needs --format; -o FILE is of rows
        meant = None if name in ("scoopi", "files") else type_
        assert {output_type_of(f"x.{suffix.upper()}") for suffix in type_.suffixes} == {meant}
    with pytest.raises(CrawlError, match="cannot be written to a stream"):
        create_encoder("sqlite", {"columns": ["a"]})


def test_an_unknown_type_is_reported_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(CrawlError, match=re.escape("unknown output type 'jsnl' (did you mean 'jsonl'?)")):
        create_encoder("jsnl", {"columns": ["a"]})
    output = Output(1, "rows", "xml", "book", str(tmp_path / "x"), {"columns": ["a"]}, 0, 0, 0, None, 0, None)
    with pytest.raises(CrawlError, match="unknown output type 'xml'"):
        create_writer(output, run="r", folder=tmp_path)


@given(st.lists(st.lists(records, max_size=3), max_size=4), st.lists(texts, min_size=1, max_size=4, unique=True))
def test_a_json_file_is_one_array_however_its_rows_are_divided(
    batches: list[list[dict[str, Any]]], columns: list[str]
) -> None:
    encoder = create_encoder("json", {"columns": columns})
    encoder.header()
    encoder.rows(['{"a":1}'])  # of a file that was given up
    data = encoder.header() + b"".join(encoder.rows(map(as_stored, rows)) for rows in batches) + encoder.footer()
    lines = create_encoder("jsonl", {"columns": columns})
    expected = [json.loads(line) for line in lines.rows(as_stored(r) for b in batches for r in b).splitlines()]
    assert json.loads(data) == expected
