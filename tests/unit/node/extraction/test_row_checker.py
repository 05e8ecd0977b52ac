"""The values that plugin code gives: read and checked as those of a selector of the same type."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from crawl_engine.model.definition import DataDef, Field
from crawl_engine.node.extraction.steps.context import PageContext
from crawl_engine.node.extraction.steps.rows import RowChecker, RowInvalid
from tests.unit.extract.pages import CONTEXT, URL


def no_call(call: str, key: str, value: Any) -> Any:
    raise AssertionError


PAGE = PageContext(
    CONTEXT, url=URL, base=URL, status=200, fetched_at=datetime(2024, 5, 20, tzinfo=UTC).timestamp(), task="t",
    data_def="d", fields=("f",), priorities={}, max_links=2, call=no_call,
)  # fmt: skip


def checked(value: Any, **field: Any) -> Any:
    """The value after one step, which a further step that leaves it does not change."""
    checker = RowChecker(DataDef(name="d", fields=(Field(name="f", from_step=True, **field),)))
    (row,) = rows = checker.check([{"f": value}], PAGE)
    assert checker.check(rows, PAGE) == rows
    return row["f"]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("date", "2024-03-04", "2024-03-04"),
        ("date", " 2024-03-04T05:06:07Z ", "2024-03-04T05:06:07+00:00"),
        ("date", date(2024, 3, 4), "2024-03-04"),
        ("date", datetime(2024, 3, 4, 5), "2024-03-04T05:00:00"),
        ("date", " ", None),
        ("url", "../a b?q#c", "https://shop.example/a%20b?q#c"),
        ("url", "https://other.example", "https://other.example/"),
        ("url", "", None),
        ("file", "/a.pdf", "https://shop.example/a.pdf"),
        ("price", "£3", {"amount": Decimal(3), "currency": "£"}),
        ("price", "1.837, 32 €", {"amount": Decimal("1837.32"), "currency": "€"}),
        ("price", {"amount": "3.50", "currency": "EUR"}, {"amount": Decimal("3.50"), "currency": "EUR"}),
        ("price", {"amount": 3}, {"amount": Decimal(3), "currency": None}),
        ("price", 3.5, {"amount": Decimal("3.5"), "currency": None}),
        ("price", "", None),
        ("price", None, None),
        ("str", "", ""),
    ],
)
def test_values_are_read_as_those_of_a_selector(type_: Any, value: Any, expected: Any) -> None:
    assert checked(value, type=type_) == expected


@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        ("date", "not a date", "'not a date' is not an ISO 8601 date; use `format` for other forms"),
        ("date", "04.03.2024", "'04.03.2024' is not an ISO 8601 date; use `format` for other forms"),
        ("date", 20240304, "it must be a text, not '20240304' (int)"),
        ("url", "http://[", "'http://[' is not a URL"),
        ("url", 5, "it must be a text, not '5' (int)"),
        ("file", "http://", "'http://' is not a URL"),
        ("price", "call us", "'call us' has no price"),
        ("price", True, "it must be a decimal, or its text, not 'True' (bool)"),
        ("price", {"amount": None}, "it must be an object of `amount` and `currency`, not \"{'amount': None}\" (dict)"),
        ("price", {"amount": 1, "unit": "kg"}, "it must be an object of `amount` and `currency`"),
        ("price", {"amount": "£1"}, "'£1' is not a number"),
        ("price", {"amount": 1, "currency": 5}, "it must be a text, not '5' (int)"),
        ("price", [1], "it must be a decimal, or its text, not '[1]' (list)"),
    ],
)
def test_what_no_selector_would_give_is_an_error(type_: Any, value: Any, reason: str) -> None:
    with pytest.raises(RowInvalid) as error:
        checked(value, type=type_)
    assert str(error.value).startswith(f"row 1, field f: {reason}")


def test_a_date_may_have_the_format_of_its_field() -> None:
    assert checked("04.03.2024", type="date", format="%d.%m.%Y") == "2024-03-04"
    assert checked("2024-03-04", type="date", format="%d.%m.%Y") == "2024-03-04"
    assert checked("gestern", type="date", format="any", locales=("de",)) == "2024-05-19"
    for text, options in (("2024/03/04", {"format": "%d.%m.%Y"}), ("yesterday", {"format": "any", "locales": ("de",)})):
        with pytest.raises(RowInvalid, match=text):
            checked(text, type="date", **options)


def test_the_items_of_a_list_are_read_one_by_one() -> None:
    assert checked(["/a", None, " ", "b"], type="url", all=True) == [
        "https://shop.example/a", None, None, "https://shop.example/catalogue/b",
    ]  # fmt: skip
    with pytest.raises(RowInvalid, match=r"it must be a list"):
        checked("/a", type="url", all=True)
