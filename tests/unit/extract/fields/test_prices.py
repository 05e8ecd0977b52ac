"""Prices in free text: amount with its places, currency as written; and what is no price."""

import subprocess
import sys
import time
from decimal import Decimal
from typing import Any

import pytest

from engine.extract.fields.convert import MAX_PRICE_CHARACTERS, price_converter
from engine.extract.page.patterns import OutOfTime
from engine.model.definition import DataDef, Field
from tests.unit.extract.pages import extract, reason, value


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [
        ("1.116,90 €", "1116.90", "€"),
        ("€ 1.116,90", "1116.90", "€"),
        ("1,116.90 USD", "1116.90", "USD"),
        ("from CHF 1'116.90 each", "1116.90", "CHF"),
        ("CHF 1\u2019234.50", "1234.50", "CHF"),
        ("1\u2032234 \u20ac", "1234", "\u20ac"),
        ("1 116,90 kr", "1116.90", "kr"),
        ("US$ 1.50 / kg", "1.50", "US$"),
        ("12", "12", None),
        ("12.345", "12345", None),
        ("€ 0,500", "0.500", "€"),
        ("0.125 kg", "0.125", None),
        ("0,500.10", "500.10", None),
        ("\u0663\u0664\u066b\u0665", "34.5", None),
        ("0,00 €", "0.00", "€"),
        ("Free", "0", None),
    ],
)
def test_a_price_has_an_amount_and_a_currency(text: str, amount: str, currency: str | None) -> None:
    price = value(f"<p>{text}</p>", selector="p", type="price")
    assert price == {"amount": Decimal(amount), "currency": currency}
    assert str(price["amount"]) == amount


def test_marks_decide_where_the_text_does_not() -> None:
    def amount(text: str, **marks: str) -> str:
        return str(value(f"<p>{text}</p>", selector="p", type="price", **marks)["amount"])

    assert amount("1.500 €") == "1500"
    assert amount("1.500 €", decimal_mark=".") == "1.500"
    assert amount("1.500,5 €", decimal_mark=",", group_mark=".") == "1500.5"
    assert amount("1 500,5 €", decimal_mark=",", group_mark=" ") == "1500.5"


@pytest.mark.parametrize("text", ["call us", "free shipping", "½ €", "12.34.56", "€"])
def test_a_text_without_a_price_rejects_the_record(text: str) -> None:
    assert reason(f"<p>{text}</p>", selector="p", type="price") == f"{text!r} has no price"


def test_a_price_is_a_value_like_others() -> None:
    two = {"selector": "i", "type": "price", "all": True}
    assert value("<i>1 €</i><i>2 $</i>", **two) == [
        {"amount": Decimal(1), "currency": "€"},
        {"amount": Decimal(2), "currency": "$"},
    ]
    assert value("<i></i>", selector="i", type="price") is None
    assert value("", selector="i", type="price", default="0.00 EUR", has_default=True) == {
        "amount": Decimal("0.00"),
        "currency": "EUR",
    }
    assert value("<i>was 5 € now 4 €</i>", selector="i", type="price", match="now (.*)")["amount"] == 4
    assert "longer than 200" in reason(f"<i>{'1' * 201}</i>", selector="i", type="price")


def test_the_worst_text_takes_milliseconds() -> None:
    convert = price_converter(None, None)
    began = time.perf_counter()
    for piece in ("1234567890", "1 ", "1.", "$", "€ ", "1 2.3,", " ", "."):
        try:
            convert((piece * MAX_PRICE_CHARACTERS)[:MAX_PRICE_CHARACTERS], "")
        except ValueError:
            pass
    assert time.perf_counter() - began < 0.2


def test_many_prices_obey_the_patience_of_the_caller() -> None:
    data_def = DataDef(name="d", fields=(Field(name="f", selector="i", type="price", all=True),))
    with pytest.raises(OutOfTime):
        extract(data_def, "<i>1</i>" * 100, patience=0.0)


def loaded_modules(code: str) -> Any:
    code += "; import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_the_library_is_loaded_by_fields_that_use_it() -> None:
    imports = "from engine.extract.fields.fields import FieldReader; from engine.model.definition import Field"
    field = f"{imports}; FieldReader(Field("
    assert "price_parser" not in loaded_modules("import engine.node.build, engine.defs.loader")
    assert "price_parser" not in loaded_modules(field + "name='f', type='decimal', decimal_mark=','))")
    assert "price_parser" in loaded_modules(field + "name='f', type='price'))")
