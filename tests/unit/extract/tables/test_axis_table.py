"""Tables of items, dims and facts, in both flavours of selectors."""

import html
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.page.patterns import OutOfTime
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.extract.select.css import CssExpression
from crawl_engine.extract.tables.axis_finder import CssFinder
from crawl_engine.model.axis import FROM_DATE_SCRIPT, Axis, AxisFilter, AxisTable, DateConverter, SelectorFlavour
from crawl_engine.model.definition import DataDef
from crawl_engine.model.job import locator_key
from crawl_engine.model.record import Extraction, RecordCounts

CONTEXT = Context(group="g", locator="acme", locator_url="", depth=0, run="r", run_time="")
HTML = """
<div id=top>Price <b>10.50</b> <i> </i> USD</div>
<table><tr><td>Year<td>Dec '16<td>Dec '15</tr>
<tr><td>Sources Of Funds<td><td></tr>
<tr><td>Share  Capital<td>1<td>2</tr>
<tr><td>Reserves<td>3<td></tr>
<tr><td>Book Value<td>5<td>null</tr>
<tr><td>Later<td>7<td>8</tr></table>
<ul><li><a href="/a.html">a</a><li><a href="/b.html">b</a><li><a>none</a></ul>
<div class=box><div>EPS (TTM)</div><div>4.2</div><div>DIV (%)</div><div>850.00%</div></div>
"""
ITEMS = Axis(
    name="item", selector="tr:nth-child(%{index}) > td:nth-child(1)", first=2, last=None, break_after=("Book Value",),
    filters=(AxisFilter(type="value", pattern="Sources Of Funds"),),
)  # fmt: skip
YEAR = Axis(name="year", selector="tr:nth-child(1) > td:nth-child(%{index})", first=2, last=3)
FACT = Axis(name="fact", selector="tr:nth-child(%{item.index}) > td:nth-child(%{dim.year.index})")
TABLE = AxisTable(block="table:contains(sources of funds)", items=(ITEMS,), dims=(YEAR,), facts=(FACT,), flavour="css")


def extract(table: AxisTable, html: str = HTML) -> Extraction:
    page = Page(url="http://h/x/page", text=html, kind="html", status=200, fetched_at=1_454_677_449.0)
    return RecordExtractor(DataDef(name="t", axis=table)).extract(page, CONTEXT)


def values(table: AxisTable, html: str = HTML) -> list[tuple[Any, ...]]:
    """The rows behind locator and group."""
    extraction = extract(table, html)
    assert extraction.rejected == ()
    rows = [tuple(row.values()) for row in extraction.rows]
    assert {row[:2] for row in rows} <= {("acme", "g")}
    return [row[2:] for row in rows]


def one(flavour: SelectorFlavour, block: str, **axis: Any) -> Any:
    item = Axis(name="item", **axis)
    table = AxisTable(block=block, items=(item,), facts=(Axis(name="fact"),), flavour=flavour)
    [(value, _)] = values(table)
    return value


def test_items_by_dims_up_to_the_break_with_the_last_axis_fastest() -> None:
    assert values(TABLE) == [
        ("Share Capital", "Dec '16", "1"), ("Share Capital", "Dec '15", "2"), ("Reserves", "Dec '16", "3"),
        ("Reserves", "Dec '15", "-"), ("Book Value", "Dec '16", "5"), ("Book Value", "Dec '15", "not found"),
    ]  # fmt: skip
    assert extract(TABLE).counts.filtered == 2
    assert extract(TABLE).counts == RecordCounts(6, 0, (("item", 0), ("year", 0), ("fact", 2)), 2), (
        "a replaced fact is missing"
    )


def test_the_same_by_xpath_with_the_table_body_a_browser_adds() -> None:
    table = replace(
        TABLE, flavour="xpath", block="//table",
        items=(replace(ITEMS, selector="tbody/tr[%{index}]/td[1]"),),
        dims=(replace(YEAR, selector="*//tr[1]/td[%{index}]"),),
        facts=(replace(FACT, selector="*//td[.='%{item.value}']/following-sibling::td[%{dim.year.index}-1]"),),
    )  # fmt: skip
    assert values(table)[2:] == [
        ("Reserves", "Dec '16", "3"), ("Reserves", "Dec '15", "-"), ("Book Value", "Dec '16", "5"),
        ("Book Value", "Dec '15", "not found"),
    ]  # fmt: skip


def test_an_apostrophe_in_a_value_does_not_break_an_xpath() -> None:
    page = "<table><tr><td>Holder's 'own' Funds<td>7</tr></table>"
    item = Axis(name="item", selector="*//tr[%{index}]/td[1]")
    fact = Axis(name="fact", selector="*//td[.='%{item.value}']/following-sibling::td")
    table = AxisTable(block="//table", items=(item,), facts=(fact,), flavour="xpath")
    assert values(table, page) == [("Holder's 'own' Funds", "7")]


NAMES = [
    "Holder's 'own'",
    'an "x" (y',
    "a) *:has(*:has(*)), b:contains(x",
    "Tax (net)",
    'it\'s "q" \\',
    "%{index}",
    "3",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("flavour", "block", "item", "fact"),
    [
        ("css", "table", "tr:nth-child(%{index}) > td:nth-child(1)", "td:contains(%{item.value}) + td"),
        ("css", "table", "tr:nth-child(%{index}) > td:nth-child(1)", "td:containsOwn('%{item.value}') + td"),
        ("css", "table", "tr:nth-child(%{index}) > td:nth-child(1)", "td:matches(^%{item.value}$) + td"),
        ("css", "table", "tr:nth-child(%{index}) > td:nth-child(1)", "td[title='%{item.value}'] + td"),
        ("xpath", "//table", "*//tr[%{index}]/td[1]", "*//td[.='%{item.value}']/following-sibling::td"),
        ("xpath", "//table", "*//tr[%{index}]/td[1]", '*//td[.="%{item.value}"]/following-sibling::td'),
        ("xpath", "//table", "*//tr[%{index}]/td[1]", "*//td[concat('a ', .)='a %{item.value}']/following-sibling::td"),
        ("xpath", "//table", "*//tr[%{index}]/td[1]", "*//td[contains(., %{item.value})]/following-sibling::td"),
    ],
)
def test_a_value_of_the_page_is_text_in_the_selector_of_another(
    flavour: SelectorFlavour, block: str, item: str, fact: str, name: str
) -> None:
    shown = html.escape(name)
    page = f"<table><tr><td title='{shown}'>{shown}<td>7</tr><tr><td>b:contains(x<td>8</tr></table>"
    axes = Axis(name="item", selector=item), Axis(name="fact", selector=fact)
    table = AxisTable(block=block, items=axes[:1], facts=axes[1:], flavour=flavour)
    if "[contains(., %{" in fact and name == "3":
        return  # a number needs no quotes, and may count elements
    assert values(table, page) == [(name, "7")]


def test_the_indexes_of_a_table_end_with_the_time_of_the_caller() -> None:
    item = Axis(name="item", selector="tr:nth-child(%{index}) > td", first=1, last=100_000)
    year = Axis(name="year", selector="tr:nth-child(1) > th:nth-child(%{index})", first=2, last=None)
    table = AxisTable(block="table", items=(item,), dims=(year,), facts=(Axis(name="fact"),), flavour="css")
    page = Page(url="http://h/", text="<table><tr><td>x</table>" * 20, kind="html", status=200, fetched_at=0.0)
    with pytest.raises(OutOfTime):
        RecordExtractor(DataDef(name="t", axis=table)).extract(page, CONTEXT, patience=0.03)


def test_a_break_that_never_comes_is_an_error_and_gives_no_row() -> None:
    extraction = extract(replace(TABLE, items=(replace(ITEMS, break_after=("Total",)),)))
    assert (extraction.rows, extraction.rejected) == ((), ())
    assert extraction.failure.startswith("item: no value equals 'Total' of `breakAfter`; the data ends at index 7 (")


def test_an_open_range_of_a_constant_ends_where_nothing_else_is_found() -> None:
    item = Axis(name="item", value="row", first=3, last=None)
    fact = Axis(name="fact", selector="tr:nth-child(%{item.index}) > td:nth-child(2)")
    date = Axis(name="date", script=FROM_DATE_SCRIPT)
    table = AxisTable(block="table", items=(item,), dims=(date,), facts=(fact,), flavour="css")
    assert len(values(table)) == 4
    failed = extract(replace(table, items=(replace(item, break_after=("end",)),)))
    assert "no value equals 'end' of `breakAfter`; the data ends at index 7" in failed.failure


def test_an_open_range_without_an_end_is_an_error() -> None:
    item = Axis(name="item", selector="td", first=1, last=None)
    extraction = extract(AxisTable(block="table", items=(item,), facts=(Axis(name="fact"),), flavour="css"))
    assert extraction.rows == ()
    assert extraction.failure.startswith("item: the range has no end within 100,000 indexes")


@pytest.mark.parametrize("flavour", ["css", "xpath"])
def test_a_table_of_4000_rows_is_read(flavour: SelectorFlavour) -> None:
    """For each row the parser would count the rows before each row: the third power of their number."""
    html = "<table>" + "".join(f"<tr><td>{row}</td><td>a</td><td>b</td></tr>" for row in range(4_000)) + "</table>"
    row, cell = ("tr:nth-child({})", "td:nth-child({})") if flavour == "css" else ("tbody/tr[{}]", "td[{}]")
    step = " > " if flavour == "css" else "/"
    table = AxisTable(
        block="table" if flavour == "css" else "//table",
        items=(Axis(name="item", selector=row.format("%{index}") + step + cell.format(1), first=1, last=None),),
        dims=(Axis(name="column", selector=row.format(1) + step + cell.format("%{index}"), first=2, last=3),),
        facts=(Axis(name="fact", selector=row.format("%{item.index}") + step + cell.format("%{dim.column.index}")),),
        flavour=flavour,
    )
    expected = [(str(row), column, column) for row in range(4_000) for column in "ab"]
    assert values(table, html) == expected


_TAGS = ("table", "tr", "td", "div", "p", "ul", "li", "b", "svg")
_TREES = st.recursive(
    st.sampled_from(["", "x", "<br>"]),
    lambda inner: st.lists(st.builds("<{0}>{1}</{0}>".format, st.sampled_from(_TAGS), inner), max_size=4).map("".join),
    max_leaves=25,
)
_SELECTORS = st.one_of(
    st.builds(
        "{}:nth-child({})".format, st.sampled_from(["tr", "td", "*", "", "div", "html", "svg"]), st.integers(0, 4)
    ),
    st.sampled_from(("tr:nth-child(2) > td:nth-child(1)", "tbody > tr:nth-child(1) > td:nth-child(2)")),
    st.sampled_from(("ul > li:nth-child(2)", "table > tbody > tr:nth-child(2) > td:nth-child(1)")),
    st.just("div tr:nth-child(1) > *:nth-child(1)"),
)


@given(_TREES, st.sampled_from(["html", "body", "table", "div", "tr"]), _SELECTORS)
def test_elements_by_number_are_those_of_the_parser(html: str, block: str, selector: str) -> None:
    page = Page(url="http://h/", text=html, kind="html", status=200, fetched_at=0.0)
    assert page.tree is not None
    finder = CssFinder(PageReading(page, CONTEXT))
    for node in page.tree.css(block):
        expected = CssExpression(selector).find_in_block(node)
        if " " not in selector:
            expected = node.css(selector)  # the block itself may match
        assert [found.mem_id for found in finder._select(node, selector)] == [one.mem_id for one in expected]


def test_an_open_range_ends_with_the_data() -> None:
    table = replace(TABLE, items=(replace(ITEMS, first=5, break_after=(), filters=()),), dims=())
    table = replace(table, facts=(Axis(name="fact", value="x"),))
    assert [row[0] for row in values(table)] == ["Book Value", "Later"]


@pytest.mark.parametrize(
    ("block", "selector", "value"),
    [
        ("#top", "*", "Price USD 10.50"), ("#top", "b", "10.50"), ("div", "b", "10.50"), ("#top", "u", None),
        ("ul", "a attribute: href", "/a.html /b.html"), ("ul", "li:nth-child(2) > a attribute: href", "/b.html"),
        (".box", "div:matchesOwn(^DIV \\(%\\)) + div", "850.00%"), (".box", "div:contains(eps (ttm)) + div", "4.2"),
        ("table", "td:containsOwn(Reserves) + td", "3"), ("p", "b", None),
        ("table", "tr:nth-child(3) > td:nth-child(2)", "1"), ("table", "tr:nth-child(3) > th:nth-child(2)", None),
        ("table", "tr:nth-child(3) > *:nth-child(2)", "1"), ("table", "tr:nth-child(3) > td:nth-child(9)", None),
        ("table", "tr:nth-child(9) > td:nth-child(1)", None), ("table", "tr > td:nth-child(2)", "Dec '16 1 3 5 7"),
        ("ul", "ul > li:nth-child(2)", ""), ("tr", "tr > td:nth-child(2)", "Dec '16 1 3 5 7"),
    ],
)  # fmt: skip
def test_css_takes_the_own_texts_of_all_matches(block: str, selector: str, value: str | None) -> None:
    assert one("css", block, selector=selector) == value


@pytest.mark.parametrize(
    ("block", "selector", "value"),
    [
        ("//ul", "li/a/@href", "/b.html"), ("//div[@class='box']", "div[2]", "4.2"), ("//ul/li[2]", "a", "b"),
        ("//div[@id='top']", "normalize-space(.)", "Price 10.50 USD"), ("//ul", "count(li)", "3"), ("//p", "a", None),
    ],
)  # fmt: skip
def test_xpath_takes_the_last_match_in_the_last_block(block: str, selector: str, value: str | None) -> None:
    assert one("xpath", block, selector=selector) == value


def test_the_sources_of_a_value_in_their_order() -> None:
    assert one("css", "ul", value="v", match="m", selector="a") == "v"
    assert one("css", "ul", match="DIV \\(%\\)", selector="a") == "DIV (%)"
    assert one("css", "ul", script=FROM_DATE_SCRIPT, selector="a") == "2016-02-05T13:04:09Z"
    assert one("css", "ul", selector="li:first-child > a", prefix=("one ", "two ")) == "two one a"


def test_filters_by_value_by_pattern_and_of_blanks() -> None:
    for rule, left in (
        (AxisFilter(type="value", pattern="1"), 5), (AxisFilter(type="match", pattern="[0-9]"), 2),
        (AxisFilter(type="value", pattern=" "), 5), (AxisFilter(type="match", pattern="nul"), 6),
    ):  # fmt: skip
        table = replace(TABLE, facts=(replace(FACT, filters=(rule,)),))
        assert len(values(table)) == left, rule


def test_dates_of_a_column_are_converted() -> None:
    converter = DateConverter(column="year", in_patterns=("MMM ''YY",), out_pattern="yyyy-MM-dd", roll="ceil")
    assert {row[1] for row in values(replace(TABLE, converters=(converter,)))} == {"2016-12-31", "2015-12-31"}
    wrong = replace(converter, in_patterns=("yyyy",))
    failure = extract(replace(TABLE, converters=(wrong,))).failure
    assert failure.startswith("year: 'Dec '16' is not a date of the form yyyy (")


def test_items_that_are_links() -> None:
    item = Axis(
        name="link", selector="li:nth-child(%{index}) > a attribute: href", first=1, last=3, prefix=("/docs",),
        link_group="other", link_break_on=("/docs/b.html",),
    )  # fmt: skip
    table = AxisTable(block="ul", items=(item,), facts=(Axis(name="fact"),), flavour="css", makes_links=True)
    [link] = extract(table).links
    assert (link.url, link.group, link.may_leave_host) == ("http://h/docs/a.html", "other", False)
    assert link.key == locator_key("other", "acme", "http://h/docs/a.html", "GET", None), "a locator of its own"
    based = replace(table, items=(replace(item, prefix=("docs",)),), base_url="http://other/")
    assert [link.url for link in extract(based).links] == ["http://other/docs/a.html", "http://other/docs/b.html"]


def test_the_marks_of_texts_do_not_stay_selectable() -> None:
    table = AxisTable(
        block="body", items=(Axis(name="item", selector="[crawl-console-text-0]"),), facts=(Axis(name="fact"),),
        flavour="css",
    )  # fmt: skip
    page = Page(url="http://h/", text=HTML, kind="html", status=200, fetched_at=0.0)
    first = RecordExtractor(DataDef(name="t", axis=TABLE)).extract(page, CONTEXT)
    assert len(first.rows) == 6
    assert [row["item"] for row in RecordExtractor(DataDef(name="u", axis=table)).extract(page, CONTEXT).rows] == [None]
