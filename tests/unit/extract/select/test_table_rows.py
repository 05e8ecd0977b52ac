"""`query.table`: the body rows of a table are records, whose fields name their columns by heading."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.extract.page.page import PageTooCostly
from crawl_engine.extract.page.patterns import OutOfTime
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.extract.select.selection import Selection, select_values
from crawl_engine.extract.select.selector_syntax import join_table
from crawl_engine.model.definition import DataDef, Field, FilterRule
from crawl_engine.model.link import Link
from tests.unit.defs.language.test_strictness import write_defs
from tests.unit.extract.pages import CONTEXT, extract, page

PRICES = """<table id=t><thead>
<tr><th rowspan=2>Name<th colspan=2>2023<th colspan=2>2024<tr><th>H1<th>H2<th>H1<th>H2</thead>
<tr><th scope=row><a href=/tea>Tea</a><td>1.10<td>1.20<td colspan=2>1.30
<tr><th>Name<th>H1<th>H2<th>H1<th>H2
<tr><td rowspan=2>Coffee<td>2.10<td>2.20<td>2.30<td>2.40<tr><td>3.10<td>3.20<td>
<tfoot><tr><td>All<td>6<td>7<td>8<td>9</table>"""
HEADINGS = ["Name", "2023 / H1", "2023 / H2", "2024 / H1", "2024 / H2"]


def rows(
    markup: str, fields: Mapping[str, str | Mapping[str, Any]], table: str = "table", header: Any = "rows", **rest: Any
) -> list[list[Any]]:
    made = tuple(
        Field(name=name, **({"column": field} if isinstance(field, str) else dict(field)))
        for name, field in fields.items()
    )
    extraction = extract(DataDef(name="d", block=join_table(table, header), fields=made, **rest), markup)
    assert extraction.rejected == ()
    return [list(row.values()) for row in extraction.rows]


@pytest.mark.parametrize("table", ["table", "#t", "xpath: //table", "xpath: //body", "body"])
def test_each_body_row_is_a_record_by_its_joined_headings(table: str) -> None:
    assert rows(PRICES, dict(zip("abcde", HEADINGS, strict=True)), table) == [
        ["Tea", "1.10", "1.20", "1.30", "1.30"],
        ["Coffee", "2.10", "2.20", "2.30", "2.40"],
        ["Coffee", "3.10", "3.20", None, None],
        ["All", "6", "7", "8", "9"],
    ]


@pytest.mark.parametrize("table", ["table", "xpath: //table"])
def test_a_field_reads_its_cell_as_any_selection(table: str) -> None:
    fields: dict[str, Mapping[str, Any]] = {
        "name": {"column": "Name", "match": "[A-Z]+"},
        "link": {"column": " Name ", "selector": "a", "attribute": "href", "type": "url"},
        "xpath": {"column": "Name", "selector": "xpath: string(./a)"},
        "span": {"column": "2024 / H1", "attribute": "colspan"},
        "price": {"column": "2023 / H1", "type": "float", "replace": (("1\\.", "2."),)},
        "parts": {"column": "2023 / H2", "split": "."},
        "links": {"column": "Name", "selector": "a", "fields": (Field(name="to", attribute="href"),)},
        "row": {"selector": "td:last-child"},
        "next": {"selector": "xpath: count(following-sibling::tr)"},
        "title": {"selector": "#t th", "scope": "page"},
    }
    tea = ["T", "https://shop.example/tea", "Tea", "2", 2.1, ["1", "20"], [{"to": "/tea"}], "1.30"]
    assert rows(PRICES, fields, table)[0][:-2] == tea
    assert rows(PRICES, fields, table)[0][-1] == "Name"
    assert int(rows(PRICES, fields, table)[0][-2]) >= 3


@pytest.mark.parametrize(
    ("markup", "header", "columns", "expected"),
    [
        ("<tr><th>a<th>b<tr><td>1<td>2", "rows", "ab", [["1", "2"]]),
        ("<tr><td><th>b<tr><th>x<td>2", "rows", ["column 1", "b"], [["x", "2"]]),
        ("<tr><th>a<th>b<tr><th>c<th><tr><th>1<td>2", "rows", ["a / c", "b"], [["1", "2"]]),
        ("<tr><td>a<td>b<tr><td>1<td>2", "first", "ab", [["1", "2"]]),
        ("<thead><tr><th>a<th>b<tbody><tr><td>1<td>2", "first", "ab", [["1", "2"]]),
        ("<thead><tr><th>t<tr><th>a<th>b<tbody><tr><td>1<td>2", "first", ["t", "column 2"], [["a", "b"], ["1", "2"]]),
        ("<tr><td>a<td>b<tr><td>1<td>2", "rows", ["column 1", "column 2"], [["a", "b"], ["1", "2"]]),
        ("<tr><th>a<th>a<tr><td>1<td>2", "rows", ["a", "a 2"], [["1", "2"]]),
        ("<tr><th>a<th>b", "rows", "ab", []),
        ("", "rows", "ab", []),
        ("", "first", "ab", []),
    ],
)
def test_header_rows(markup: str, header: str, columns: Any, expected: list[list[str]]) -> None:
    for table in ("table", "xpath: //table"):
        fields = dict(zip("xy", columns, strict=True))
        assert rows(f"<table>{markup}</table>", fields, table, header) == expected


KETTLES = """<table class=c><caption>Kettles</caption>
<tr><th>Model<td><a href=/p/a>A</a><td><a href=/p/b>B</a><td><a href=/p/c>C</a>
<tr><th colspan=4>Prices<tr><th>Price<td>39.90<td>49.90<td>59.90
<tr><th>Colour<td colspan=2>black<td>white<tr><th>Timer<td><td>yes</table>"""


@pytest.mark.parametrize("table", ["table", ".c", "xpath: //table", "body"])
def test_each_column_is_a_record_by_the_headings_of_the_first_one(table: str) -> None:
    fields: dict[str, Any] = {
        "model": "Model",
        "price": "Price",
        "colour": "Colour",
        "timer": "Timer",
        "url": {"column": "Model", "selector": "a", "attribute": "href", "type": "url"},
        "cells": {"selector": "td", "all": True},
        "last": {"selector": "xpath: .//td[last()]"},
        "title": {"column": "Price", "selector": "xpath: string(ancestor::table/caption)"},
    }
    shop = "https://shop.example/p/"
    assert rows(KETTLES, fields, table, "columns") == [
        ["A", "39.90", "black", None, f"{shop}a", ["A", "39.90", "black"], None, "Kettles"],
        ["B", "49.90", "black", "yes", f"{shop}b", ["B", "49.90", "black", "yes"], "yes", "Kettles"],
        ["C", "59.90", "white", None, f"{shop}c", ["C", "59.90", "white"], "white", "Kettles"],
    ]


@pytest.mark.parametrize(
    ("markup", "names", "expected"),
    [
        ("<tr><td>a<td>1<td>2<tr><td>b<td>3<td>4", "ab", [["1", "3"], ["2", "4"]]),
        ("<thead><tr><th><th>1<th>2<tbody><tr><th>b<td>3<td>4", ["row 1", "b"], [["1", "3"], ["2", "4"]]),
        ("<tr><th rowspan=2>s<th>a<td>1<tr><th>b<td>2", ["s / a", "s / b"], [["1", "2"]]),
        ("<tr><th colspan=2>p<td>0<tr><th rowspan=2>s<th>a<td>1<tr><th>b<td>2", ["p", "s / b"], [["0", "2"]]),
        ("<tr><th>a<td>1<tr><th>a<td>2", ["a", "a 2"], [["1", "2"]]),
        ("<tr><th>a<th>1<th>2<tr><th>b<th>3<th>4", "ab", [["1", "3"], ["2", "4"]]),
        ("<tr><th>a<td>1<td>2<tr><th>b<td>3", "ab", [["1", "3"], ["2", None]]),
        ("<tr><th>a<td>1<tfoot><tr><th>b<td>2", "ab", [["1", "2"]]),
        ("<tr><th>a<tr><th>b", "ab", []),
        ("", "ab", []),
    ],
)
def test_header_columns(markup: str, names: Any, expected: list[list[str]]) -> None:
    for table in ("table", "xpath: //table"):
        fields = dict(zip("xy", names, strict=True))
        assert rows(f"<table>{markup}</table>", fields, table, "columns") == expected


def test_links_and_repeats_see_the_records_of_columns() -> None:
    links = (Link(selector="a", in_block=True, group="tea", carry=("price",)),)
    data_def = DataDef(
        name="d", block="table(columns): table", fields=(Field(name="price", column="Price"),), links=links
    )
    extraction = extract(data_def, KETTLES)
    assert [link.url[-3:] for link in extraction.links] == ["p/a", "p/b", "p/c"]
    assert "59.90" in str(extraction.links[-1].details)
    blank = page("<table><tr><td><td>1</table>")
    RecordExtractor(data_def).extract(blank, CONTEXT)
    assert [(one.code, one.text) for one in blank.warnings.values()] == [
        ("no-headings", "d: the first column of the table `table` has no text: its rows are `row 1`, `row 2`, …")
    ]


def test_a_table_without_headings_is_told() -> None:
    document = page("<table><tr><td>a<tr><td>1</table>")
    found = RecordExtractor(DataDef(name="d", block="table: table", fields=(Field(name="f", column="a"),)))
    extraction = found.extract(document, CONTEXT)
    assert [row["f"] for row in extraction.rows] == [None, None]
    assert dict(extraction.counts.missing) == {"f": 2}
    [warning] = document.warnings.values()
    assert warning.code == "no-headings"
    assert "d: the table `table` has no header rows: write `header: first`" in warning.text


def test_a_missing_column_is_missing_in_each_row() -> None:
    data_def = DataDef(name="d", block="table: #t", fields=(Field(name="f", column="2025 / H1"),))
    assert dict(extract(data_def, PRICES).counts.missing) == {"f": 4}
    required = Field(name="f", column="2025 / H1", required=True)
    rejected = extract(DataDef(name="d", block="table: #t", fields=(required,)), PRICES).rejected
    assert [one.reason for one in rejected] == ["the field is required but missing"] * 4


def test_filters_and_links_see_the_row() -> None:
    links = (Link(selector="a", in_block=True, group="tea", carry=("name",)),)
    filters = (FilterRule(field="name", pattern="All|Coffee"),)
    data_def = DataDef(
        name="d", block="table: #t", fields=(Field(name="name", column="Name"),), filters=filters, links=links
    )
    extraction = extract(data_def, PRICES)
    assert [dict(row) for row in extraction.rows] == [{"name": "Tea"}]
    assert [link.url for link in extraction.links] == ["https://shop.example/tea"]


def test_several_tables_have_headings_of_their_own() -> None:
    two = "<table><tr><th>a<th>b<tr><td>1<td>2</table><table><tr><th>b<th>a<tr><td>3<td>4</table>"
    assert rows(two, {"a": "a", "b": "b"}) == [["1", "2"], ["4", "3"]]


def test_a_selection_reads_columns_and_names_them() -> None:
    document = page(PRICES)
    found = select_values(document, Selection(selector=None, block="table: #t", column="2023 / H1"))
    assert found.values == ("1.10", "2.10", "3.10", "6")
    assert found.headings == tuple(HEADINGS)
    missing = select_values(document, Selection(selector="a", block="table: #t", column="Name", attribute="href"))
    assert (missing.values, missing.blocks_without) == (("/tea",), 3)


@pytest.mark.parametrize(
    "markup",
    [
        f"<table><tr><td colspan=1000 rowspan=65534>x{'<tr>' * 9_000}</table>",
        f"<table><tr>{'<td colspan=1000>x' * 8_000}</table>",
        f"<table>{'<tr><th colspan=1000>' * 900}<tr><td>x</table>",
        f"<table><tr><th colspan=1000>{'x' * 200_000}<tr>{'<td>y' * 1_000}</table>",
    ],
)
def test_a_table_of_too_many_cells_is_refused(markup: str) -> None:
    data_def = DataDef(name="d", block="table: table", fields=(Field(name="f", column="a"),))
    with pytest.raises((PageTooCostly, OutOfTime)):
        extract(data_def, markup, patience=5.0)


@pytest.mark.parametrize(
    ("source", "markup"),
    [
        ("comment(#all)", f"<div id=all><!-- <div>{PRICES}</div> --></div>"),
        ("template", f"<template><h2>Tea</h2>{PRICES}</template>"),
    ],
)
def test_a_table_inside_a_document_inside_the_page(source: str, markup: str, tmp_path: Path) -> None:
    written = f"""\
locatorGroups: {{list: {{locators: [{{url: "https://shop.example/"}}]}}}}
taskGroups: {{list: {{items: {{dataDef: item}}}}}}
dataDefs:
  item:
    query: {{from: "{source}", as: html, table: table}}
    fields:
      name: {{column: Name}}
      url: {{column: Name, selector: a, attribute: href, type: url}}
      price: {{column: "2024 / H2"}}
      id: {{selector: "xpath: ancestor::table/@id"}}
"""
    data_def = load(write_defs(tmp_path, written)).definitions.data_def("item")
    assert data_def is not None
    assert [list(row.values()) for row in extract(data_def, f"<p>x</p>{markup}").rows] == [
        ["Tea", "https://shop.example/tea", "1.30", "t"],
        ["Coffee", None, "2.40", "t"],
        ["Coffee", None, None, "t"],
        ["All", None, "9", "t"],
    ]


def test_alternatives_and_maps_see_the_cell(tmp_path: Path) -> None:
    written = """\
locatorGroups: {list: {locators: [{url: "https://shop.example/"}]}}
taskGroups: {list: {items: {dataDef: item}}}
dataDefs:
  item:
    query: {table: "#t"}
    fields:
      link: {column: Name, selector: [i, a], attribute: href}
      kind: {column: Name, map: {Tea: hot, "*": other}}
      both: {value: "%{field.kind}-%{field.link}"}
"""
    data_def = load(write_defs(tmp_path, written)).definitions.data_def("item")
    assert data_def is not None
    assert [list(row.values()) for row in extract(data_def, PRICES).rows][:2] == [
        ["/tea", "hot", "hot-/tea"],
        [None, "other", None],
    ]
