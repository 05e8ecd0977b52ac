"""The header of a CSV document: found by the columns that the fields name, or at the line that the query says."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from crawl_engine.defs.loader import load
from crawl_engine.extract.documents.csv_table import read_csv
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.link import Link, TextSource
from tests.unit.defs.language.test_strictness import load_problems, write_defs
from tests.unit.extract.pages import CONTEXT, extract, page

REPORT = "Prices of tea;;\r\nReporting period;2026-01-01 to 2026-01-31;\r\n;;\r\nSKU;Name;Price\r\nA-1;Sencha;4,50\r\n"
FIELDS = (Field(name="sku", selector="jmespath: SKU"), Field(name="price", selector="jmespath: to_string(Price)"))
ITEM = DataDef(name="item", block="jmespath: @", fields=FIELDS)


def read(text: str, data_def: DataDef = ITEM) -> tuple[list[tuple[str | None, ...]], list[tuple[str, str]]]:
    document = page(text, kind="csv")
    found = RecordExtractor(data_def).extract(document, CONTEXT)
    warnings = [(one.code, one.text) for one in document.warnings.values()]
    return [tuple(row.values()) for row in found.rows], [*warnings, *[("", fault) for fault in document.faults]]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (REPORT, [("A-1", "4,50")]),
        (REPORT.replace(";", "\t"), [("A-1", "4,50")]),
        ("Prices of tea, green\nas of 1 May, 2026\n\nSKU;Price\nA-1;4\n", [("A-1", "4")]),
        ("Prices of tea\nSKU;Price\nA-1;4\n", [("A-1", "4")]),
        ("sep=|\nPrices\n SKU | Price \nA-1|4\n", [("A-1", "4")]),
        ("SKU,Price\nA-1,4\n", [("A-1", "4")]),
        ("SKU,Prize\nA-1,4\nSKU,Prize\n", [("A-1", "null"), ("SKU", "null")]),  # a part of the columns
        ('"SKU";"Price"\n"A;1";"Price, SKU"\n', [("A;1", "Price, SKU")]),
        ("Price;SKU;\n4;A-1;\n", [("A-1", "4")]),
        ("SKU;Price", []),
        ("\n\nSKU;Price\r\n", []),
    ],
)
def test_the_header_is_the_line_with_the_columns_of_the_fields(text: str, rows: list[tuple[str, str]]) -> None:
    assert read(text) == (rows, [])


def test_the_columns_of_the_block_count_too() -> None:
    block = "jmespath: @[?SKU != 'Total']"
    data_def = DataDef(name="item", block=block, fields=(Field(name="name", selector="jmespath: column2"),))
    assert read(REPORT.replace("Name", "") + "Total;;7,70\n", data_def) == ([("Sencha",)], [])


def test_columns_by_number_have_the_first_line_as_before() -> None:
    data_def = DataDef(name="item", block="jmespath: @", fields=(Field(name="name", selector="jmespath: column2"),))
    assert read(REPORT, data_def)[0] == [("2026-01-01 to 2026-01-31",), (None,), ("Name",), ("Sencha",)]


@pytest.mark.parametrize(
    ("text", "line", "has"),
    [
        ("A-1;Sencha\n", None, "its header is 'A-1', 'Sencha'"),
        ("", None, "it is empty"),
        (f"{';' * 10_000}x\n", None, "its header has 10,001 cells"),
        (REPORT, 2, "line 2 is 'Reporting period', '2026-01-01 to 2026-01-31', 'column3'"),
        (REPORT, 9, "line 9 is blank"),
    ],
)
def test_fields_without_a_column_are_a_warning(text: str, line: int | None, has: str) -> None:
    found = read(text, DataDef(name="item", block="jmespath: @", header_line=line, fields=FIELDS))[1]
    message = f"item: the CSV has none of the columns that the fields name (Price, SKU): {has}"
    assert found[0] == ("no-columns", f"{message}; `header: N` in `query` gives its line")


def test_a_line_without_named_columns_is_no_warning_unless_it_is_blank() -> None:
    data_def = DataDef(name="item", block="jmespath: @", fields=(Field(name="name", selector="jmespath: column3"),))
    assert read(REPORT.replace("Name", ""), replace(data_def, header_line=4))[1] == []
    assert "the CSV has no columns: line 9 is blank" in read(REPORT, replace(data_def, header_line=9))[1][0][1]


def test_the_columns_of_links_count_too() -> None:
    data_def = DataDef(name="item", links=(Link(group="teas", selector="jmespath: [*].Page"),))
    links = extract(data_def, "Teas\nas of 1 May\nSKU;Page\nA-1;/a\n", kind="csv").links
    assert [link.url for link in links] == ["https://shop.example/a"]


def test_a_header_may_stand_at_a_line() -> None:
    tables = REPORT + "\r\nSKU;Price;Old\r\nB-1;5;6\r\n"
    data_def = DataDef(name="item", block="jmespath: @", header_line=7, fields=FIELDS)
    assert read(tables, data_def) == ([("B-1", "5")], [])
    assert read_csv("sep=;\na;b\n1;2\n", 2).rows == [{"a": "1", "b": "2"}], "lines as an editor counts them"
    assert read_csv("a, b\nc;d\n1;2\n", 2).rows == [{"c": "1", "d": "2"}], "the delimiter is that of the header"


def test_several_data_defs_and_documents_inside_a_page_find_their_own() -> None:
    document = page(REPORT, kind="csv")
    period = DataDef(
        name="period", block="jmespath: @", fields=(Field(name="of", selector='jmespath: "Prices of tea"'),)
    )
    for _ in range(2):
        assert len(RecordExtractor(period).extract(document, CONTEXT).rows) == 4
        assert len(RecordExtractor(ITEM).extract(document, CONTEXT).rows) == 1
    source = (TextSource(selector="pre", format="csv"),)
    inner = DataDef(name="item", sources=source, block="jmespath: @", fields=FIELDS)
    rows = extract(inner, f"<pre>{REPORT}</pre><pre>SKU;Price\nB-1;3</pre>").rows
    assert [row["sku"] for row in rows] == ["A-1", "B-1"]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ('{block: "jmespath: @", header: 4}', ""),
        ("{header: 4}", ""),
        ('{block: "jmespath: @", header: first}', "`header` needs `table`"),
        ("{block: tr, header: 4}", "a line of a CSV document, whose records `block"),
        ("{table: table, header: 4}", "of `table` write rows, first or columns"),
        ("{table: table, header: columns}", ""),
        ("{table: table, header: collumns}", "did you mean 'columns'?"),
        ('{block: "jmespath: @", header: 0}', "a line from 1 to 10,000"),
        ('{block: "jmespath: @", header: 10001}', "a line from 1 to 10,000"),
    ],
)
def test_a_line_of_the_defs(query: str, problem: str, tmp_path: Path) -> None:
    defs = write_defs(tmp_path, f"dataDefs:\n  d: {{query: {query}, fields: {{a: {{attribute: text}}}}}}\n")
    if not problem:
        assert load(defs).definitions.data_defs[0].header_line == (4 if "4" in query else None)
        return
    (found,) = [one for one in load_problems(defs) if one.code not in ("unused", "no-start")]
    assert problem in found.message
