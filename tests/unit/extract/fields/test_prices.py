"""Prices in free text: amount with its places, currency as written; and what is no price."""

import subprocess
import sys
import time
from decimal import Decimal
from typing import Any

import pytest

from crawl_engine.extract.fields.prices import MAX_PRICE_CHARACTERS, PriceReader
from crawl_engine.extract.page.patterns import OutOfTime
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from tests.unit.extract.pages import CONTEXT, extract, page, reason, value

FIELD = Field(name="price", selector="p", type="price")


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
        ("FREE !", "0", None),
        ("1,234,567.890 USD", "1234567.890", "USD"),
        ("1,234.567", "1234.567", None),
        ("1.234,567 €", "1234.567", "€"),
        ("1234.567", "1234.567", None),
        ("1.234.567 €", "1234567", "€"),
        ("1\u202f234,56 \u20ac", "1234.56", "€"),
        ("1 234 567,89 Kč", "1234567.89", "Kč"),
        ("US$\u00a01\u00a0298,00", "1298.00", "US$"),
        ("12'345.-", "12345", None),
        ("10.000,-", "10000", None),
        ("Rs. 1,25,000.00", "125000.00", "Rs"),
        ("₹10,00,00,000.50", "100000000.50", "₹"),
        ("Rs.50", "50", "Rs"),
        ("kr.1.500,00", "1500.00", "kr"),
        ("$.75", "0.75", "$"),
        ("$..75", "0.75", "$"),
        ("now ...75 €", "75", "€"),
        ("Rs..75", "75", "Rs"),
        ("$.850.40", "850.40", "$"),
        (",50 €", "0.50", "€"),
        (".750", "0.750", None),
        ("35€99", "35.99", "€"),
        ("35€ 99", "35.99", "€"),
        ("3.50 100 g", "3.50", None),
        ("27. 49 $", "27.49", "$"),
        ("from 9 .95 €", "9.95", "€"),
        ("2 . 50 €", "2.50", "€"),
        ("2.318, 07 €", "2318.07", "€"),
        ("1 299 , 00 Kč", "1299.00", "Kč"),
        ("1. 299, 00 €", "1299.00", "€"),
        ("1, 25,000. 50 ₹", "125000.50", "₹"),
        ("4. 20 5. 30", "4.20", None),
        ("3, 5, 10 €", "3", "€"),
        ("3, 10, 20 €", "3", "€"),
        ("7, 5 zł", "7.5", "zł"),
        ("$.. 99", "0.99", "$"),
        ("$. 99", "0.99", "$"),
        ("sizes 3. 1 kg", "3", None),
        ("1. 12. 2024", "1", None),
        ("12 99", "12", None),
        ("from 5 to 9 €", "5", "€"),
        ("20–30 €", "20", "€"),
        ("¥1,980 (tax incl.)", "1980", "¥"),
        ("20% off 45 €", "45", "€"),
        ("10 % off: 45 €", "45", "€"),
        ("%10 45 TL", "45", "TL"),
        ("100% cotton 45 €", "45", "€"),
        ("\u0661\u066c\u0662\u0663\u0664\u066b\u0665\u0666", "1234.56", None),
        ("\u06f1\u06f2\u066c\u06f3\u06f4\u06f5 تومان", "12345", "تومان"),
        ("１２，３４５円", "12345", "円"),
        ("1\u200b234,5 €", "1234.5", "€"),
    ],
)
def test_a_price_has_an_amount_and_a_currency(text: str, amount: str, currency: str | None) -> None:
    price = value(f"<p>{text}</p>", selector="p", type="price")
    assert price == {"amount": Decimal(amount), "currency": currency}
    assert str(price["amount"]) == amount


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("-5.00 €", "-5.00"),
        ("−5,00 €", "-5.00"),
        ("€ -5.00", "-5.00"),
        ("-€5.00", "-5.00"),
        ("- 5 €", "-5"),
        ("Discount: -5 €", "-5"),
        ("5,00- €", "-5.00"),
        ("(5.00)", "-5.00"),
        ("($1,234.50)", "-1234.50"),
        ("$(1,234.50)", "-1234.50"),
        ("-0.00", "0.00"),
        ("12,-", "12"),
        ("12.–", "12"),
        ("5-9 €", "5"),
        ("Price - 5 €", "5"),
        ("4 € (5 €)", "4"),
        ("(5 pcs) 12 €", "12"),
        ("50 % – 5 €", "5"),
    ],
)
def test_a_minus_sign_is_told_from_a_dash(text: str, amount: str) -> None:
    assert str(value(f"<p>{text}</p>", selector="p", type="price")["amount"]) == amount


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [
        ("Brutto 7,50", "7.50", None),
        ("Kleid 5", "5", None),
        ("Kleid 5 EUR", "5", "EUR"),
        ("Le prix 12", "12", None),
        ("Le prix : 12,50 €", "12.50", "€"),
        ("EUR-Palette 12 $", "12", "$"),
        ("Price in EUR: 12.50", "12.50", "EUR"),
        ("incl. VAT, 12.50 per item, all in EUR", "12.50", "EUR"),
        ("AED 8000 (USD 2179)", "8000", "AED"),
        ("SGD$123", "123", "SGD"),
        ("$123 NZD", "123", "NZD"),
        ("US$:12.99", "12.99", "US$"),
        ("5 euros", "5", "euro"),
        ("45 рублей", "45", "руб"),
        ("149 kronor", "149", "kr"),
        ("149 złotych", "149", "zł"),
        ("3 Stück SFr. 12.50", "12.50", "Fr."),
        ("12,000원부터", "12000", "원"),
        ("3,500円（税込）", "3500", "円"),
        ("CAN$1.23", "1.23", "$"),
        ("12 Krawatten", "12", None),
    ],
)
def test_a_currency_is_a_word_of_its_own(text: str, amount: str, currency: str | None) -> None:
    price = value(f"<p>{text}</p>", selector="p", type="price")
    assert (str(price["amount"]), price["currency"]) == (amount, currency)


@pytest.mark.parametrize(
    ("text", "amount", "is_doubtful"),
    [
        ("3 Stück 12,50 €", "12.50", False),
        ("2 x 4,99 €", "4.99", False),
        ("(5 pcs) 12 €", "12", False),
        ("iPhone 64 GB 299 €", "299", False),
        ("0,75 l 12,50 €", "12.50", False),
        ("5 kg $7.50", "7.50", False),
        ("2 m 5 €", "5", False),
        ("3 Stück 12,50", "12.50", True),
        ("0,75 l 12,50", "12.50", True),
        ("Größe 42: 12,50", "42", True),
        ("12,50 / 100 g", "12.50", False),
        ("5 bis 9,50", "5", False),
        ("5 g 3,2 g", "5", False),
        ("Größe 42: 12,50 €", "12.50", True),
        ("Art. 4711 12,50 €", "12.50", True),
        ("3 Ausgaben für nur 14,85 EUR", "14.85", True),
        ("Größe 42 - 12,50 €", "12.50", True),
        ("2024 12,50 €", "12.50", True),
        ("50 - $2.00 100 - $2.75", "2.00", True),
        ("=SUMME(A1) 5", "5", True),
        ("12 99 €", "12", True),
        ("from 5 to 9 €", "5", False),
        ("from 5 to €9", "5", False),
        ("von 5 bis 9 EUR", "5", False),
        ("de 5 à 9 €", "5", False),
        ("od 5 do 9 zł", "5", False),
        ("5-9 €", "5", False),
        ("10 – 12,50 €", "10", False),
        ("3, 10, 20 €", "3", False),
        ("was 5 € now 4 €", "5", False),
        ("4 € for 3 pieces", "4", False),
        ("12 99", "12", False),
    ],
)
def test_the_number_beside_the_currency_is_the_price(text: str, amount: str, *, is_doubtful: bool) -> None:
    document = page(f"<p>{text}</p>")
    extraction = RecordExtractor(DataDef(name="book", fields=(FIELD,))).extract(document, CONTEXT)
    assert [str(row["price"]["amount"]) for row in extraction.rows] == [amount]
    expected = f"book.price: {text!r} is read as {amount}; another number may be the price"
    assert [(one.code, one.text.startswith(expected)) for one in document.warnings.values()] == (
        [("guessed-number", True)] if is_doubtful else []
    )


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        *(("3. 350 €", "3350"), ("3.350 €", "3350"), ("1,980 ¥", "1980"), ("-1.500", "-1500")),
        *(
            (text, None)
            for text in ("3.35 €", "3. 35 €", "0,500", "1.234.567", "1'234", "1 234", "10.000,-", "1,234.5", ".750")
        ),
    ],
)
def test_one_mark_before_three_digits_groups_with_a_warning(text: str, read_as: str | None) -> None:
    document = page(f"<p>{text}</p>")
    RecordExtractor(DataDef(name="book", fields=(FIELD,))).extract(document, CONTEXT)
    expected = f"book.price: {text!r} is read as {read_as}; `decimalMark` or `groupMark` says what its mark means"
    assert [(one.code, one.text) for one in document.warnings.values()] == (
        [("guessed-group", expected)] if read_as else []
    )


def test_marks_decide_where_the_text_does_not() -> None:
    def amount(text: str, **marks: str) -> str:
        return str(value(f"<p>{text}</p>", selector="p", type="price", **marks)["amount"])

    assert amount("1.500 €") == "1500"
    assert amount("1.500 €", decimal_mark=".") == "1.500"
    assert amount("1.500,5 €", decimal_mark=",", group_mark=".") == "1500.5"
    assert amount("1 500,5 €", decimal_mark=",", group_mark=" ") == "1500.5"
    assert amount("3.350 €", decimal_mark=",") == amount("3.350 €", group_mark=".") == "3350"
    assert amount("3,350 €", group_mark=".") == amount("3, 350 €", group_mark=".") == "3.350"
    assert amount("12. 345 KD", decimal_mark=".") == "12.345"
    assert amount("1’500.50", decimal_mark=".", group_mark="’") == "1500.50"
    assert amount("1,25,000", group_mark=",") == "125000"
    given = reason("<p>3.35 €</p>", selector="p", type="price", decimal_mark=",")
    assert given.startswith("'3.35 €' has no price with `decimalMark: ','`; select its element")


@pytest.mark.parametrize(
    "text",
    [
        *("call us", "free shipping", "½ €", "12.34.56", "€", "-10%", "10 %", "10-20 %", "-12,5%"),
        *("1,234.567,89", "1.23.456 €", "01.02.2024 45 €", "2e3", "1e400k", "1.5E+7 €"),
    ],
)
def test_a_text_without_a_price_rejects_the_record(text: str) -> None:
    told = reason(f"<p>{text}</p>", selector="p", type="price")
    assert told.startswith(f"{text!r} has no price; ")
    assert ("`match: '.*[0-9].*'`" in told) is not any(map(str.isdigit, text))


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
    reader = PriceReader(None, None)
    began = time.thread_time()
    for piece in ("1234567890", "1 ", "1.", "$", "€ ", "1 2.3,", " ", "."):
        try:
            reader.read((piece * MAX_PRICE_CHARACTERS)[:MAX_PRICE_CHARACTERS])
        except ValueError:
            pass
    assert time.thread_time() - began < 0.2


def test_many_prices_obey_the_patience_of_the_caller() -> None:
    data_def = DataDef(name="d", fields=(Field(name="f", selector="i", type="price", all=True),))
    with pytest.raises(OutOfTime):
        extract(data_def, "<i>1</i>" * 100, patience=0.0)


def loaded_modules(code: str) -> Any:
    code += "; import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_the_library_is_loaded_by_fields_that_use_it() -> None:
    imports = (
        "from crawl_engine.extract.fields.fields import FieldReader; from crawl_engine.model.definition import Field"
    )
    field = f"{imports}; FieldReader(Field("
    assert "price_parser" not in loaded_modules("import crawl_engine.node.build, crawl_engine.defs.loader")
    assert "price_parser" not in loaded_modules(field + "name='f', type='decimal', decimal_mark=','))")
    assert "price_parser" in loaded_modules(field + "name='f', type='price'))")
