"""Lists of selectors, maps, codes, values of other fields, and the language that a page names."""

import base64
from decimal import Decimal
from typing import Any

import pytest

from crawl_engine.extract.fields.human_dates import find_locale
from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import Page, PageTooCostly
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from crawl_engine.model.link import Carried, Link
from crawl_engine.model.record import Extraction

CONTEXT = Context(group="g", locator="l", locator_url="http://a.example/", depth=2, run="r", run_time="")


def extract(markup: str, *fields: Field, block: str | None = "li") -> Extraction:
    page = Page(url="http://a.example/", text=markup, kind="html", status=200, fetched_at=0.0)
    return RecordExtractor(DataDef(name="d", block=block, fields=fields)).extract(page, CONTEXT)


def rows(markup: str, *fields: Field) -> list[dict[str, Any]]:
    return [dict(row) for row in extract(markup, *fields).rows]


PRICES = "<li><b>1</b><i>2</i><li><b> </b><i>3</i><li><u>4</u>"


def test_the_first_selector_that_gives_a_value_counts() -> None:
    price = Field(name="price", selector="b", fallbacks=("xpath: ./i", "u"), type="int")
    found = extract(PRICES, price)
    assert [row["price"] for row in found.rows] == [1, 3, 4]
    assert dict(found.counts.missing) == {"price": 0, "price[1]": 2, "price[2]": 1}


def test_a_list_of_selectors_may_give_lists_defaults_and_rejections() -> None:
    many = Field(name="x", selector="s", fallbacks=("b",), all=True)
    assert rows("<li><b>1</b><b>2</b><li>", many) == [{"x": ["1", "2"]}, {"x": []}]
    assert rows("<li>", Field(name="x", selector="s", fallbacks=("b",), has_default=True, default="none")) == [
        {"x": "none"}
    ]
    [rejected] = extract("<li>", Field(name="x", selector="s", fallbacks=("b",), required=True)).rejected
    assert "required" in rejected.reason
    nested = Field(name="x", selector="s", fallbacks=("b",), fields=(Field(name="y"),))
    assert rows("<li><b>1</b>", nested) == [{"x": [{"y": "1"}]}]


def test_a_map_replaces_whole_texts() -> None:
    stock = Field(name="x", selector="b", map={"In stock": "true", "*": "false"}, type="bool")
    assert rows("<li><b>In  stock</b><li><b>in stock</b><li>", stock) == [{"x": True}, {"x": False}, {"x": None}]
    assert rows("<li><b>A</b><li><b>B</b>", Field(name="x", selector="b", map={"A": "1"}, type="int")) == [
        {"x": 1},
        {"x": None},
    ]
    parts = Field(name="x", selector="b", split=",", map={"a": "A", "*": "?"})
    assert rows("<li><b>a, b</b>", parts) == [{"x": ["A", "?"]}]
    [missing] = extract("<li><b>B</b>", Field(name="x", selector="b", map={"A": "1"}, required=True)).rejected
    assert missing.field == "x"


@pytest.mark.parametrize(
    ("decode", "text", "value"),
    [
        ("url", "%C3%BC%20+b", "ü +b"),
        ("url", "%zz", "%zz"),
        ("html", "a &amp;amp; b", "a & b"),
        ("base64", base64.b64encode("grün tee".encode()).decode(), "grün tee"),
        ("base64", base64.urlsafe_b64encode(b"\xc3\xbf\xc3\xbe?").decode().rstrip("="), "ÿþ?"),
        ("base64", "!!", None),
        ("base64", "/////w==", None),
        ("base64", "=", None),
        ("base64", "A", None),
    ],
)
def test_a_text_is_decoded_before_it_is_matched(decode: Any, text: str, value: str | None) -> None:
    assert rows(f'<li><a data-x="{text}"></a>', Field(name="x", selector="a", attribute="data-x", decode=decode)) == [
        {"x": value}
    ]


def test_a_decoded_text_is_normalized_and_matched() -> None:
    field = Field(name="x", selector="b", decode="url", match="q=(.*)")
    assert rows("<li><b>q%3D%20a%0A%0Ab</b>", field) == [{"x": "a b"}]


def test_a_value_holds_values_of_fields_before_it() -> None:
    fields = (
        Field(name="sku", selector="b"),
        Field(name="price", selector="i", type="price"),
        Field(name="tags", selector="u", all=True),
        Field(name="id", value="%{field.sku}-%{depth}/%{field.tags}"),
        Field(name="amount", value="%{field.price.amount} of %{field.id}", required=True),
    )
    found = extract("<li><b>A</b><i>1.50 €</i><u>x</u><u>y</u><li><b>B</b>", *fields)
    assert [(row["id"], row["amount"]) for row in found.rows] == [("A-2/x|y", "1.50 of A-2/x|y")]
    assert [rejected.field for rejected in found.rejected] == ["amount"]


@pytest.mark.parametrize("language", ["de", "de-DE", "DE_de", " de-AT ", "de-XX"])
def test_the_language_of_a_date_stands_in_the_page(language: str) -> None:
    date = Field(name="x", selector="time", type="date", format="any", locales=("xpath: string(/html/@lang)",))
    assert rows(f'<html lang="{language}"><li><time>3. März 2024</time>', date) == [{"x": "2024-03-03"}]


@pytest.mark.parametrize(
    ("text", "locale"),
    [("zh-Hant", "zh-Hant"), ("zh-Hans-CN", "zh"), ("en_gb", "en-GB"), ("", None), ("-", None), ("de" * 60, None)],
)
def test_the_language_of_a_page_is_a_known_one(text: str, locale: str | None) -> None:
    assert find_locale(text) == locale


def test_a_written_language_follows_that_of_the_page() -> None:
    date = Field(name="x", selector="time", type="date", format="any", locales=("xpath: string(/html/@lang)", "de"))
    for language in ("", "tlh", "en", "x" * 10_000):
        assert rows(f'<html lang="{language}"><li><time>3. März 2024</time>', date) == [{"x": "2024-03-03"}]


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("free", {"map": {"free": "0.50"}, "type": "decimal", "decimal_mark": ","}, Decimal("0.50")),
        ("now", {"map": {"now": "2024-01-31"}, "type": "date", "format": "any", "locales": ("de",)}, "2024-01-31"),
        ("yes", {"map": {"yes": "0"}, "match": "yes", "type": "bool"}, False),
        ("home", {"map": {"home": "/a"}, "type": "url"}, "http://a.example/a"),
        ("a", {"map": {"a": ""}}, None),
        ("*", {"map": {"*": "all"}}, "all"),
        ("state: out", {"map": {"out": "0"}, "match": "state: (.+)", "type": "int"}, 0),
    ],
)
def test_values_of_a_map_are_written_as_defaults_are(text: str, field: dict[str, Any], expected: Any) -> None:
    assert rows(f"<li><b>{text}</b>", Field(name="x", selector="b", **field)) == [{"x": expected}]


def test_nested_values_and_names_with_a_dot() -> None:
    fields = (
        Field(name="sku", selector="b"),
        Field(name="a.b", selector="i"),
        Field(name="parts", selector="u", fields=(Field(name="id", value="%{field.sku}/%{field.a.b}"),)),
    )
    [row] = rows("<li><b>A</b><i>1</i><u>x</u>", *fields)
    assert row["parts"] == [{"id": "A/1"}]


def test_values_of_values_count_as_text() -> None:
    fields = [Field(name="f0", value="x" * 4_000)]
    fields += [Field(name=f"f{number}", value=f"%{{field.f{number - 1}}}" * 100) for number in range(1, 5)]
    with pytest.raises(PageTooCostly):
        extract("<li>", *fields)


def test_links_of_the_page_carry_values_of_the_page() -> None:
    fields = (
        Field(name="shop", selector="h1", scope="page"),
        Field(name="sku", selector="b"),
        Field(name="id", value="%{field.shop}-%{depth}"),
    )
    data_def = DataDef(name="d", block="li", fields=fields, links=(Link(selector="a", carry=("id",)),))
    page = Page(
        url="http://a.example/", text="<h1>S</h1><a href=/x>x</a><li><b>1</b>", kind="html", status=200, fetched_at=0.0
    )
    [link] = RecordExtractor(data_def).extract(page, CONTEXT).links
    assert link.details is not None
    assert Carried.from_json(link.details.carried).values == {"id": "S-2"}


def test_a_default_excuses_each_selector() -> None:
    field = Field(name="x", selector="s", fallbacks=("b",), has_default=True)
    assert RecordExtractor(DataDef(name="d", fields=(field,))).defaulted_fields == {"x", "x[1]"}


def test_a_page_without_a_known_language_rejects_its_dates() -> None:
    date = Field(name="x", selector="time", type="date", format="any", locales=("xpath: string(/html/@lang)",))
    for markup in ("<li><time>3 May 2024</time>", '<html lang="tlh"><li><time>3 May 2024</time>'):
        [rejected] = extract(markup, date).rejected
        assert "no known language" in rejected.reason
