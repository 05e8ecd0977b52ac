"""`type: table`: an object for each body row, with cells on their grid; blocks of rows that meet spans."""

from typing import Any

import pytest

from crawl_engine.extract.page.page import PageTooCostly
from crawl_engine.extract.page.patterns import OutOfTime
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from tests.unit.extract.pages import CONTEXT, extract, page, reason, value

SALES = """<table id=t><tr><th>Region</th><th>City</th><th>Sold</th></tr>
<tr><td rowspan=2>North</td><td>Aa</td><td>1</td></tr><tr><td>Bb</td><td>2</td></tr>
<tr><td>South</td><td colspan=2>closed</td></tr>
<tr><td rowspan=0>East</td><td>Cc</td><td>3</td></tr><tr><td>Dd</td><td>4</td></tr></table>"""


def table(text: str, **field: Any) -> Any:
    return value(text, **{"selector": "table", "type": "table"} | field)


def cells(text: str) -> list[list[str | None]]:
    return [list(row.values()) for row in table(text)]


@pytest.mark.parametrize("selector", ["#t", "xpath: //table", "xpath: //body"])
def test_spanned_values_are_repeated(selector: str) -> None:
    rows = table(SALES, selector=selector)
    assert [list(row) for row in rows] == [["Region", "City", "Sold"]] * 5
    assert [list(row.values()) for row in rows] == [
        ["North", "Aa", "1"], ["North", "Bb", "2"], ["South", "closed", "closed"], ["East", "Cc", "3"],
        ["East", "Dd", "4"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("head", "headings"),
    [
        ("<tr><th rowspan=2>Region<th colspan=2>Sales<tr><th>Q1<th>Q2", ["Region", "Q1", "Q2"]),
        ("<tr><th>Region<th colspan=2>Sales", ["Region", "Sales", "Sales 2"]),
        ("<tr><th>a<th>b<th>c<tr><th>A<th><th>C", ["A", "b", "C"]),
        ("<tr><th>Region<th colspan=2>2023<tr><th><th>Q1<th>Q1", ["Region", "2023 / Q1", "2023 / Q1 2"]),
        ("<tr><th>Region<th>2023<th>2024<tr><th>Q1<th>Q1<th>Q1", ["Region / Q1", "2023 / Q1", "2024 / Q1"]),
        ("<tr><th>a<th>b", ["a", "b", "column 3"]),
        ("<tr><th>a<th>a 2<th>a", ["a", "a 2", "a 3"]),
        ("<tr><td>a<td>b<td>c", ["a", "b", "c"]),
    ],
)
def test_a_heading_is_the_lowest_one_above_its_column(head: str, headings: list[str]) -> None:
    (row,) = table(f"<table><thead>{head}</thead><tbody><tr><th>x<td>1<td>2</table>")
    assert row == dict(zip(headings, ["x", "1", "2"], strict=True))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<tr><td>1<td>2", [["1", "2"]]),
        ("<tr><td>1", [["1", None]]),
        ("<tr><td>1<td>", [["1", ""]]),
        ("<tr></tr><tr><td>1<td>2", [["1", "2"]]),
        ("<tr><td rowspan=9>1<td>2<tbody><tr><td>3<td>4", [["1", "2"], ["3", "4"]]),
        ("<tr><td rowspan=0>1<td>2<tr><td>3<tbody><tr><td>4<td>5", [["1", "2"], ["1", "3"], ["4", "5"]]),
        ("<tr><td rowspan=2>1<td rowspan=2>2<tr></tr>", [["1", "2"], ["1", "2"]]),
        ("<tr><td colspan=99>all", [["all", "all"]]),
        ("<tr><td colspan=0>1<td>2", [["1", "2"]]),
        ("<tr><td colspan=x rowspan=-3>1<td>2<tr><td>3<td>4", [["1", "2"], ["3", "4"]]),
        ("<tr><td rowspan=' 2px'>1<td>2<tr><td>3", [["1", "2"], ["1", "3"]]),
        ("<tr><td rowspan=-0>1<td>2<tr><td>3", [["1", "2"], ["1", "3"]]),
        (f"<tr><td rowspan={'9' * 5000}>1<td>2<tr><td>3", [["1", "2"], ["1", "3"]]),
        ("<tr><td>1<td rowspan=2>2<tr><td colspan=2>3", [["1", "2"], ["3", "2"]]),
        ("<tr><td>1<td> two \n lines<br>x ", [["1", "two lines x"]]),
        ("<tr><td>1<td><table><tr><td>in<tr><td>ner</table>", [["1", "in ner"]]),
        ("<tr><td>1<td>2<tfoot><tr><td>sum<td>3<tbody><tr><td>4<td>5", [["1", "2"], ["4", "5"], ["sum", "3"]]),
        ("<tr><td>1<script>x</script><td>2", [["1", "2"]]),
        ("", []),
    ],
)
def test_body_rows(body: str, expected: list[list[str | None]]) -> None:
    assert cells(f"<table><thead><tr><th>a<th>b</thead><tbody>{body}</table>") == expected


def test_headings_may_stand_in_the_first_column() -> None:
    specs = "<table><tr><th>Weight<td>3 kg<td>4 kg<tr><td>Colour<td colspan=2>black<tr><th>Timer<td><td>yes</table>"
    found = value(specs, selector="table", type="table", header="columns")
    assert found == [
        {"Weight": "3 kg", "Colour": "black", "Timer": ""},
        {"Weight": "4 kg", "Colour": "black", "Timer": "yes"},
    ]
    assert value("<table><tr><th>Weight</table>", selector="table", type="table", header="columns") == []


def test_a_table_that_is_not_there_is_an_empty_list() -> None:
    assert table("<p>x", selector="p") == table("<p>x") == table("<table></table>") == []
    assert table("<table><tr><th>a</table>") == []
    assert "required" in reason("<p>x", selector="table", type="table", required=True)
    assert table("<p>x", default=[], has_default=True) == []
    assert table('{"a": 1}', kind="json", selector="jmespath: a") == []


def test_several_tables_and_those_of_blocks_and_objects() -> None:
    two = "<div><table><tr><th>a<tr><td>1</table></div><div><table><tr><th>b<tr><td>2</table></div>"
    assert table(two, all=True) == [[{"a": "1"}], [{"b": "2"}]]
    data_def = DataDef(name="d", block="div", fields=(Field(name="t", selector="table", type="table"),))
    assert [row["t"] for row in extract(data_def, two).rows] == [[{"a": "1"}], [{"b": "2"}]]
    inner = Field(name="t", selector="table", type="table")
    assert value(two, selector="div", fields=(inner,)) == [{"t": [{"a": "1"}]}, {"t": [{"b": "2"}]}]


@pytest.mark.parametrize(
    "text",
    [
        f"<table><tr><td colspan=1000 rowspan=65534>x{'<tr>' * 9_000}</table>",
        f"<table><tr>{'<td colspan=1000>x' * 8_000}</table>",
        f"<table><tr><td colspan=1000 rowspan=0>x{'<tr><td>y' * 9_000}</table>",
        f"<table><tr>{'<th>x' * 3_000}{'<tr><td>y' * 3_000}</table>",
        f"<table><tr><th>{'x' * 60_000}{'<tr><td>y' * 9_000}</table>",
    ],
)
def test_a_table_of_too_many_cells_is_refused(text: str) -> None:
    data_def = DataDef(name="d", fields=(Field(name="t", selector="table", type="table"),))
    with pytest.raises(PageTooCostly):
        extract(data_def, text)
    with pytest.raises(OutOfTime):
        extract(data_def, text, patience=5.0)


@pytest.mark.parametrize(
    ("block", "markup", "warns"),
    [
        ("tr", SALES, True),
        ("xpath: //table[@id='t']//tr[td]", SALES, True),
        ("table", SALES, False),
        ("td", SALES, False),
        ("tr", "<table><tr><td colspan=1 rowspan=1>a<tr><td>b</table>", False),
        ("tr.b", "<table><tr><td rowspan=2>a<tr class=b><td>b</table>", True),
        ("tr.b", "<table><tr><td rowspan=2>a<tr><td>x<tr class=b><td>b</table>", False),
        ("tr.b", "<table><tr><td rowspan=0>a<tr><td>x<tr class=b><td>b</table>", True),
        ("tbody tr", "<table><thead><tr><th colspan=2 rowspan=3>a</thead><tbody><tr><td>x</table>", False),
        ("tr.b", "<table><tr class=b><td>a<td colspan=2>b</table>", True),
    ],
)
def test_a_block_row_that_meets_a_span_is_a_warning(block: str, markup: str, warns: bool) -> None:
    document = page(markup)
    RecordExtractor(DataDef(name="row", block=block, fields=(Field(name="f", selector="td"),))).extract(
        document, CONTEXT
    )
    assert [one.code for one in document.warnings.values()] == (["spanned-row"] if warns else [])
