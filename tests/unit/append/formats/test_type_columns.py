"""Each type of field has a column in every typed output, and a text has one of texts, alone and in a list."""

import json
from typing import Any, get_args

import pytest

from crawl_engine.append.formats.column_types import column_types
from crawl_engine.append.formats.sqlite import OutputTable
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.field_type import FIELD_TYPES, ColumnKind, FieldType
from crawl_engine.supervise.outputs import output_settings

VALUES: dict[str, Any] = {
    "text": "+4930", "int": 1, "float": 1.5, "decimal": 1.5, "bool": True, "json": {"a": 1}, "rows": [{"a": 1}],
    "object": {"amount": 1.5, "currency": "€"},
}  # fmt: skip
DATES = {"date": "2024-05-01T10:00:00"}
FIELDS = {name: Field(name=name, type=name) for name in FIELD_TYPES}
LISTS = {f"{name}s": Field(name=f"{name}s", type=name, all=True) for name in FIELD_TYPES}
SETTINGS = output_settings(DataDef(name="d", fields=(*FIELDS.values(), *LISTS.values())))
TYPES = column_types(FIELDS | LISTS)
PLAIN_TEXTS = [name for name, type_ in FIELD_TYPES.items() if type_.column == "str"]


def value_of(type_: FieldType) -> Any:
    if type_.parts and type_.stored != "object":
        return {name: 1 if part == "int" else "x" for name, part in type_.parts}
    return DATES.get(type_.column, VALUES[type_.stored])


ROW = {name: value_of(type_) for name, type_ in FIELD_TYPES.items()}
ROW |= {f"{name}s": [value] for name, value in ROW.items()}


@pytest.mark.parametrize("type_", FIELD_TYPES.values(), ids=FIELD_TYPES)
def test_the_settings_of_outputs_have_the_kind_of_each_type(type_: FieldType) -> None:
    assert type_.column in get_args(ColumnKind)
    assert SETTINGS["types"][type_.name] == type_.column
    assert (type(TYPES[type_.name]) is list) == bool(type_.parts)
    assert TYPES[f"{type_.name}s"] == {"list": TYPES[type_.name]}


def test_parquet_keeps_a_value_of_each_type() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    from crawl_engine.append.formats.parquet import ParquetEncoder

    encoder = ParquetEncoder(list(TYPES), TYPES)
    data = encoder.header() + encoder.rows([json.dumps(ROW)]) + encoder.footer()
    (row,) = parquet.read_table(pyarrow.BufferReader(data)).to_pylist()
    assert None not in row.values()
    assert {name for name in PLAIN_TEXTS if row[name] != "+4930" or row[f"{name}s"] != ["+4930"]} == set()


def test_duckdb_has_a_value_of_each_type_and_texts_as_texts(tmp_path: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    from crawl_engine.append.formats.duckdb import fill_table

    settings = {"columns": list(TYPES), "column_types": TYPES}
    assert fill_table(tmp_path / "a.duckdb", "d", settings, [[(1, json.dumps(ROW))]]) == 1
    with duckdb.connect(str(tmp_path / "a.duckdb")) as db:
        types = {name: type_ for name, type_, *_ in db.execute("DESCRIBE d").fetchall()}
        (row,) = db.execute("SELECT * FROM d").fetchall()
    assert None not in row
    assert {(types[name], types[f"{name}s"]) for name in PLAIN_TEXTS} == {("VARCHAR", "VARCHAR[]")}


def test_postgresql_has_a_value_of_each_type_and_texts_as_texts() -> None:
    pytest.importorskip("psycopg")
    from crawl_engine.append.send.postgres_table import PostgresTable

    table = PostgresTable("d", {"columns": list(TYPES), "column_types": TYPES})
    ladders = dict(zip(table.column_names, table.ladders, strict=True))
    _, [row] = table.encode([(1, json.dumps(ROW))], [0] * len(TYPES))
    assert None not in row
    assert {(ladders[name].steps[0].name, ladders[f"{name}s"].steps[0].name) for name in PLAIN_TEXTS} == {
        ("text", "text[]")
    }


def test_sqlite_gives_texts_the_affinity_of_texts() -> None:
    sql = OutputTable("d", list(FIELDS), None, SETTINGS["types"]).create_sql()
    assert all(f'"{name}" TEXT' in sql for name in PLAIN_TEXTS)
