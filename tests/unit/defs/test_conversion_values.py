"""Converted tables on a page: the values stay the same."""

from pathlib import Path

import pytest

from engine.settings import Settings

from .converted import CSS, XPATH, converted

PAGE = """\
<h1>Tea</h1>
<div id=price><span><b>3.15</b></span></div>
<div id=facts><p>Price</p><p>3</p><p>Stock</p><p> </p></div>
<section><ol>
<li><article><a href=b1 title="One">1</a><i class=p>1.5</i></article>
<li><article><a href=b2 title="Two">2</a><i class=p>2.5</i></article>
<li><article><a href=b3 title="Three">3</a></article>
<li><article><a href=b4 title="Four">4</a><i class=p> </i></article>
</ol></section>"""

CSS_BLOCK, XPATH_BLOCK = "ol > li:nth-child(%{item.index}) > article", "//ol/li[%{item.index}]/article"
CSS_DIMS = 'dims: [item: {name: url, selector: "a attribute: href"}, item: {name: day, match: "a\\\\(b"}]'
XPATH_DIMS = "dims: [item: {name: url, selector: a/@href}, item: {name: day, match: 'a\\(b'}]"


def css(item: str, selector: str = "a attribute: title", more: str = CSS_DIMS) -> str:
    return f'{{query: {{block: "{CSS_BLOCK}", selector: "{selector}"}}, items: [item: {{{item}}}], {more}}}'


def xpath(item: str, selector: str = "a/@title", more: str = XPATH_DIMS) -> str:
    return f'{{query: {{block: "{XPATH_BLOCK}", selector: "{selector}"}}, items: [item: {{{item}}}], {more}}}'


@pytest.mark.parametrize(
    ("table", "steps", "rows"),
    [
        (css("name: book, value: 'a %{x}', indexRange: 1-4"), CSS, 4),
        (css("name: book, value: b, indexRange: 2-3"), CSS, 2),
        (css("name: book, value: b, index: 2", "i"), CSS, 1),
        (css("name: book, selector: a, indexRange: 2-"), CSS, 3),
        (css("name: book, selector: a, indexRange: 1-4", ".p"), CSS, 4),
        (css("name: book, selector: a, indexRange: 1-4", "i"), CSS, 4),
        (xpath("name: book, value: b, indexRange: 1-4"), XPATH, 4),
        (xpath("name: book, value: b, indexRange: 2-3"), XPATH, 2),
        (xpath("name: book, selector: a, indexRange: 3-", "i"), XPATH, 2),
        (xpath("name: book, selector: 'normalize-space(a)', index: 1", "i"), XPATH, 1),
    ],
)
def test_a_block_with_the_index_gives_the_same_rows(tmp_path: Path, table: str, steps: str, rows: int) -> None:
    definitions = converted(tmp_path, table, steps, Settings(fact_not_found="-", fact_blank="-"))
    assert definitions.notes("kept") == []
    before, after = definitions.rows(PAGE)
    assert before == after
    assert len(after) == rows
    assert definitions.after.data_def("d").columns == definitions.before.data_def("d").columns  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("filters", "rows"),
    [
        ("type: value, pattern: 2.5", 3),
        ('type: value, pattern: " "', 2),
        ('type: match, pattern: "[12].*"', 2),
        ('type: match, pattern: ".*"', 0),
    ],
)
def test_filters_drop_the_same_rows(tmp_path: Path, filters: str, rows: int) -> None:
    dim = f"dims: [item: {{name: price, selector: i, filters: [filter: {{{filters}}}]}}]"
    fact = f"facts: [item: {{name: fact, selector: i, filters: [filter: {{{filters}}}]}}]"
    for more in (dim, fact):
        definitions = converted(tmp_path, css("name: book, value: b, indexRange: 1-4", more=more))
        before, after = definitions.rows(PAGE)
        assert before == after
        assert len(after) == rows


@pytest.mark.parametrize(
    ("query", "steps"),
    [
        ('block: "#price", selector: "*"', CSS),
        ('block: "div#price", selector: span b', CSS),
        ('block: "#price b", selector: b', CSS),
        ('block: "#price", selector: b', CSS),
        ('block: "#price", selector: "span *"', CSS),
        ('block: "div#price", selector: div > span > b', CSS),
        ("block: \"//div[@id='price']\", selector: span/b", XPATH),
        ("block: \"//div[@id='price']\", selector: \"./span/b[.='3.15']\"", XPATH),
        ('block: "//div[@id=\'price\']", selector: "normalize-space(.//b)"', XPATH),
    ],
)
def test_a_constant_item_is_a_field_of_the_page(tmp_path: Path, query: str, steps: str) -> None:
    definitions = converted(tmp_path, f"{{query: {{{query}}}, items: [item: {{name: Price, value: P}}]}}", steps)
    before, after = definitions.rows(PAGE)
    assert before == [["n", "g", "P", "3.15"]]
    assert after == [["n", "g", "3.15"]]


def test_each_constant_item_is_a_field(tmp_path: Path) -> None:
    items = "item: {name: one, match: Price}, item: {name: two, value: Stock}, item: {name: three, value: Other}"
    selector = "p[.='%{item.match}' or .='%{item.value}']/following-sibling::p[1]"
    table = f'{{query: {{block: "//div[@id=\'facts\']", selector: "{selector}"}}, items: [{items}]}}'
    definitions = converted(tmp_path, table, XPATH)
    before, after = definitions.rows(PAGE)
    assert [row[-1] for row in before] == ["3", "-", "-"]
    assert after == [["n", "g", "3", "-", "-"]]


def test_one_selected_item_is_a_record_of_the_page(tmp_path: Path) -> None:
    table = "{query: {block: html, selector: '#price b'}, items: [item: {name: t, selector: h1}]}"
    definitions = converted(tmp_path, table)
    before, after = definitions.rows(PAGE)
    assert before == after == [["n", "g", "Tea", "3.15"]]


def test_xpath_reads_the_table_of_a_browser(tmp_path: Path) -> None:
    page = "<table><tr><td>x</td><td>7</td></tr></table>"
    table = "{query: {block: //table, selector: 'tbody/tr/td[2]'}, items: [item: {name: x, value: y}]}"
    before, after = converted(tmp_path, table, XPATH).rows(page)
    assert (before[0][-1], after[0][-1]) == ("7", "7")


def test_dates_of_one_pattern_are_typed(tmp_path: Path) -> None:
    plugin = 'plugin: {class: DateFormater, item: day, inPattern: "d MMM yyyy", outPattern: yyyy-MM-dd}'
    step = f"{{jsoupDefault: {{c: {{class: DataConverter, previous: filter, next: appender, plugins: [{plugin}]}}}}}}"
    dims = "dims: [item: {name: day, selector: i}]"
    table = f"{{query: {{block: html, selector: b}}, items: [item: {{name: x, value: y}}], {dims}}}"
    definitions = converted(tmp_path, table, step)
    before, after = definitions.rows("<i>5 Mar 2024</i><b>1</b>")
    assert before == [["n", "g", "y", "2024-03-05", "1"]]
    assert after == [["n", "g", "2024-03-05", "1"]]
    assert "type: date" in definitions.yaml
    assert "DataConverter" not in definitions.conversion.text()


def test_what_a_record_reads_in_another_way_is_said(tmp_path: Path) -> None:
    definitions = converted(tmp_path, css("name: b, value: b, indexRange: 1-9", ".p"), settings=Settings())
    assert definitions.notes("differs")[:4] == [
        "a record is one block, so that an index has as many rows as blocks, and none without one",
        "a field takes the first element that matches; the table joins the texts of all",
        "'fact' is searched for below the block; in the table the block itself counts, too",
        "a blank fact is 'not found' like a missing one; in the table it is '-'",
    ]
    before, after = definitions.rows(PAGE)
    assert (len(before), len(after)) == (9, 4)
    assert [(row[-1], new[-1]) for row, new in zip(before, after, strict=False)][2:] == [
        ("not found", "not found"),
        ("-", "not found"),
    ]


def test_a_date_in_another_form_than_the_setting_is_said(tmp_path: Path) -> None:
    settings = Settings(date_time_pattern="dd-MM-yyyy")
    more = "dims: [item: {name: day, script: document.getFromDate()}]"
    definitions = converted(tmp_path, css("name: b, value: b", more=more), settings=settings)
    assert "'day' is written as 2024-01-31T09:05:00Z, not as dd-MM-yyyy" in definitions.notes("differs")
    assert definitions.rows(PAGE)[1][0][3] == "2001-09-09T01:46:40Z"
