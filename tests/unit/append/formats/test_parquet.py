"""The output type `parquet`: the types of its columns, the values that do not fit, and its bytes."""

import io
import json
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.append.formats import parquet
from crawl_engine.append.formats.column_types import column_types
from crawl_engine.append.formats.parquet import ParquetEncoder
from crawl_engine.model.definition import DataDef, Field

FIELDS = (
    Field(name="title"),
    Field(name="link", type="url"),
    Field(name="count", type="int"),
    Field(name="share", type="float"),
    Field(name="weight", type="decimal"),
    Field(name="sold", type="bool"),
    Field(name="day", type="date", format="%d.%m.%Y"),
    Field(name="moment", type="date", format="%d.%m.%Y %H:%M"),
    Field(name="instant", type="date", format="%d.%m.%Y %H:%M %z"),
    Field(name="when", type="date"),
    Field(name="price", type="price"),
    Field(name="paper", type="file"),
    Field(name="data", type="json"),
    Field(name="grid", type="table"),
    Field(name="tags", all=True),
    Field(name="sizes", type="int", split=","),
    Field(name="parts", fields=(Field(name="n", type="int"), Field(name="colours", all=True))),
)
DATA_DEF = DataDef(name="book", fields=FIELDS)


def encoder(columns: Iterable[str] = DATA_DEF.columns) -> ParquetEncoder:
    # the settings of an output are stored as JSON
    return ParquetEncoder(list(columns), json.loads(json.dumps(column_types({field.name: field for field in FIELDS}))))


def encode(rows: Iterable[str], *, columns: Iterable[str] = DATA_DEF.columns, step: int = 100) -> bytes:
    encoding, rows = encoder(columns), list(rows)
    parts = [encoding.header()]
    parts += [encoding.rows(rows[at : at + step]) for at in range(0, len(rows), step)]
    return b"".join([*parts, encoding.footer()])


def read(data: bytes) -> pyarrow.Table:
    return pyarrow.parquet.read_table(io.BytesIO(data))


def read_value(column: str, value: str) -> Any:
    """The cell of a JSON value."""
    (row,) = read(encode([f'{{"{column}":{value}}}'], columns=[column])).to_pylist()
    assert list(row) == [column]
    return row[column]


def test_columns_have_the_types_of_the_fields() -> None:
    money = pyarrow.decimal128(38, 18)
    expected = {
        "title": pyarrow.string(), "link": pyarrow.string(), "count": pyarrow.int64(), "share": pyarrow.float64(),
        "weight": money, "sold": pyarrow.bool_(), "day": pyarrow.date32(), "moment": pyarrow.timestamp("us"),
        "instant": pyarrow.timestamp("us", "UTC"), "when": pyarrow.timestamp("us"),
        "price": pyarrow.struct([("amount", money), ("currency", pyarrow.string())]),
        "paper": pyarrow.struct([
            ("path", pyarrow.string()), ("size", pyarrow.int64()), ("hash", pyarrow.string()),
            ("type", pyarrow.string()),
            ("name", pyarrow.string()), ("url", pyarrow.string()),
        ]),
        "data": pyarrow.string(), "grid": pyarrow.string(), "tags": pyarrow.list_(pyarrow.string()),
        "sizes": pyarrow.list_(pyarrow.int64()),
        "parts": pyarrow.list_(pyarrow.struct([("n", pyarrow.int64()), ("colours", pyarrow.list_(pyarrow.string()))])),
    }  # fmt: skip
    schema = read(encode([])).schema
    assert {name: schema.field(name).type for name in schema.names} == {
        name: pyarrow.list_(pyarrow.field("element", type_.value_type)) if pyarrow.types.is_list(type_) else type_
        for name, type_ in expected.items()
    }
    assert schema.names == list(expected)


@pytest.mark.parametrize(
    ("column", "value", "cell"),
    [
        ("title", '"née ☃"', "née ☃"),
        ("title", "12.50", "12.50"),
        ("title", '{"a":[1,true,null]}', '{"a":[1,true,null]}'),
        ("title", '"\\ud800"', "?"),
        ("count", "-9223372036854775808", -(2**63)),
        ("share", "1e-3", 0.001),
        ("weight", "12.50", Decimal("12.50")),
        ("weight", "1E+5", Decimal(100_000)),
        ("weight", "0.0000000000000000010000", Decimal("1E-18")),
        ("weight", f"{10**20 - 1}.{10**18 - 1}", Decimal(f"{10**20 - 1}.{10**18 - 1}")),
        ("sold", "true", True),
        ("day", '"2024-01-31"', date(2024, 1, 31)),
        ("moment", '"2024-01-31T09:05:00"', datetime(2024, 1, 31, 9, 5)),
        ("instant", '"2024-01-31T09:05:00+02:00"', datetime(2024, 1, 31, 7, 5, tzinfo=UTC)),
        ("when", '"2024-01-31"', datetime(2024, 1, 31)),
        ("when", '"2024-01-31T09:05:00+02:00"', datetime(2024, 1, 31, 7, 5)),
        ("price", '{"amount":1116.90,"currency":"€"}', {"amount": Decimal("1116.90"), "currency": "€"}),
        ("data", '{"a": 1.10, "b": [1]}', '{"a":1.10,"b":[1]}'),
        ("tags", '["a",null,"b"]', ["a", None, "b"]),
        ("tags", '"a"', ["a"]),
        ("parts", '[{"n":1,"colours":["red"]},{}]', [{"n": 1, "colours": ["red"]}, {"n": None, "colours": None}]),
    ],
)
def test_a_value_keeps_its_type(column: str, value: str, cell: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert read_value(column, value) == cell
    assert not caplog.records


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("count", "9223372036854775808"),
        ("count", "1.5"),
        ("count", '"12"'),
        ("count", "true"),
        ("share", "1e999"),
        ("weight", "0.0000000000000000001"),
        ("weight", str(10**20)),
        ("weight", "1E+999"),
        ("weight", "-1E-999"),
        ("sold", "1"),
        ("day", '"31 January"'),
        ("when", '"0001-01-01T00:00:00+02:00"'),
        ("when", "20240131"),
        ("instant", '"2024-01-31T09:05:00"'),
        ("price", "12"),
        ("price", '{"amount":1,"rate":2}'),
        ("sizes", '[1,"two"]'),
        ("parts", '[{"n":"one"}]'),
    ],
)
def test_a_value_that_does_not_fit_is_null_and_told(column: str, value: str, caplog: pytest.LogCaptureFixture) -> None:
    assert read_value(column, value) is None
    assert caplog.messages[0].endswith(f"exports as jsonl have them: {column} (1)")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.dictionaries(st.sampled_from(DATA_DEF.columns), json_values, max_size=4), max_size=5))
def test_no_row_is_lost_whatever_it_holds(rows: list[dict[str, Any]]) -> None:
    assert read(encode(json.dumps(row) for row in rows)).num_rows == len(rows)


def test_equal_rows_give_equal_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 250)
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 100)
    rows = [f'{{"title":"Book {n}","count":{n},"weight":{n}.50}}' for n in range(1_030)]
    whole = encode(rows, step=7)
    assert whole == encode(rows, step=400)
    assert pyarrow.parquet.ParquetFile(io.BytesIO(whole)).metadata.num_row_groups == 5
    table = read(whole)
    assert table.column("count").to_pylist() == list(range(1_030))
    assert pyarrow.concat_tables([table, read(encode([]))]).num_rows == 1_030


def test_large_rows_end_a_group_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_CHARACTERS", 1_000)
    data = encode(['{"title":"' + "x" * 400 + '"}'] * 9)
    assert pyarrow.parquet.ParquetFile(io.BytesIO(data)).metadata.num_row_groups == 3


def test_an_encoder_begins_again_with_each_file() -> None:
    encoding = encoder()
    encoding.header()
    encoding.rows(['{"title":"of a file that was given up"}'])
    data = encoding.header() + encoding.rows(['{"title":"kept"}']) + encoding.footer()
    assert read(data).column("title").to_pylist() == ["kept"]
