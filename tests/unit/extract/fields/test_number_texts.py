"""Digits that several elements show: cents that stand raised are cents, all else keeps its value, with a warning."""

import pytest

from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from tests.unit.extract.pages import CONTEXT, page

Found = tuple[str, list[str]]


def read(html: str, **keys: object) -> Found:
    """The amount, and the codes of the warnings."""
    field = Field(**{"name": "price", "selector": "p", "type": "price", **keys})  # type: ignore[arg-type]
    document = page(f"<p>{html}</p>")
    (row,) = RecordExtractor(DataDef(name="book", fields=(field,))).extract(document, CONTEXT).rows
    price = row["price"]
    return str(price["amount"] if isinstance(price, dict) else price), [one.code for one in document.warnings.values()]


@pytest.mark.parametrize(
    ("html", "amount"),
    [
        ("<b>36</b><sup>24</sup> €", "36.24"),
        ("$<b>36</b><sup>24</sup>", "36.24"),
        ("$36<small>24</small>", "36.24"),
        ("$<span>36</span><span><sup>24</sup></span>", "36.24"),
        ("$<b>36</b><small><sup>24</sup></small>", "36.24"),
        ("36<sup>24 €</sup>", "36.24"),
        ("1.299<sup>00</sup> €", "1299.00"),
        ("$1,299<sup>00</sup>", "1299.00"),
        ("1 299<sup>00</sup> Kč", "1299.00"),
        ("$<b>36</b><sup>.24</sup>", "36.24"),
        ("<span>36<span>.</span></span><span>24</span> €", "36.24"),
        ("<b>12,99 €</b><sup>1</sup>", "12.99"),
        ("$<!-- -->36<!-- -->.24", "36.24"),
        ("$1<wbr>299", "1299"),
        ("$1<!-- -->299", "1299"),
        ("<b>$36</b>", "36"),
    ],
)
def test_raised_digits_of_a_currency_with_cents_are_cents(html: str, amount: str) -> None:
    assert read(html) == (amount, [])
    assert read(html, selector="xpath: //p") == (amount, [])


@pytest.mark.parametrize(
    ("html", "amount"),
    [
        ("<b>36</b><sup>24</sup>", "36.24"),
        ("36<sup>1</sup> €", "361"),
        ("36<sup>123</sup> €", "36123"),
        ("36<b>24</b> €", "3624"),
        ("36<sub>24</sub> €", "3624"),
        ("¥36<sup>24</sup>", "3624"),
        ("36<sup>24</sup> Ft", "3624"),
        ("<b>36</b><i>2</i><sup>24</sup> €", "36224"),
        ("$12.99<sup>10</sup>", "12.9910"),
        ("$36<sup>24</sup>5", "36245"),
    ],
)
def test_digits_of_several_elements_are_a_warning(html: str, amount: str) -> None:
    assert read(html) == (amount, ["digits-joined"])
    assert read(html, selector="xpath: //p") == (amount, ["digits-joined"])


@pytest.mark.parametrize("kind", ["int", "float", "decimal"])
def test_numbers_of_several_elements_are_joined_with_a_warning(kind: str) -> None:
    amount, codes = read("<b>36</b><sup>24</sup>", type=kind)
    assert (float(amount), codes) == (3624.0, ["digits-joined"])
    assert float(read("<b>36</b>.<sup>24</sup>", type="decimal")[0]) == 36.24


def test_texts_and_edited_prices_are_as_before() -> None:
    assert read("36<sup>24</sup>", type="str") == ("3624", [])
    assert read("36<sup>24</sup> €", replace=((r"(\d\d) €", r".\1 €"),)) == ("36.24", ["digits-joined"])
    assert read("36<sup>24</sup> €", match=".*") == ("3624", ["digits-joined"])
    assert read("36<sup>24</sup> €", attribute="ownText") == ("36", [])


@pytest.mark.parametrize("selector", ["p", "xpath: //p"])
def test_own_text_around_an_element_is_joined_with_a_warning(selector: str) -> None:
    own = {"attribute": "ownText", "selector": selector}
    assert read("36<b>x</b>24 €", **own) == ("3624", ["digits-joined"])
    assert read("36<!-- x -->24<i>a</i> €", **own) == ("3624", [])
    assert read("36<br>24 €", **own) == ("36", ["guessed-number"])
    assert read("<b>36</b> <sup>24</sup> €", selector=selector) == ("36", ["guessed-number"])


def test_the_decimal_mark_is_that_of_the_field() -> None:
    assert read("1.299<sup>95</sup> €", decimal_mark=",") == ("1299.95", [])
    assert read("1,299<sup>95</sup> $", decimal_mark=".") == ("1299.95", [])


def test_the_warning_shows_the_elements() -> None:
    document = page("<p>36<sup>1</sup> €</p>")
    field = Field(name="price", selector="p", type="price")
    RecordExtractor(DataDef(name="book", fields=(field,))).extract(document, CONTEXT)
    (warning,) = document.warnings.values()
    assert warning.text == (
        "book.price: a number that several elements show ('36|1| €') is read as '361 €'; select one of them, or write"
        " how they belong together, such as `xpath: concat(b, '.', sup)`"
    )
