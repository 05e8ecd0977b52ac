"""Sums with a word of magnitude are read whole, or rejected; numbers with a unit keep their value."""

from decimal import Decimal
from typing import Any

import pytest

from crawl_engine.extract.fields.magnitudes import find_magnitude
from crawl_engine.extract.fields.prices import PriceReader
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Field
from tests.unit.extract.pages import CONTEXT, extract, page, reason, value

REJECTED = None
SUMS: dict[str, list[tuple[str, int | Decimal | None]]] = {
    "en": [
        ("$1.2M", 1_200_000), ("$450K", 450_000), ("£2.5m", 2_500_000), ("$3.4bn", 3_400_000_000),
        ("$1.2 million", 1_200_000), ("US$ 3.4 billion", 3_400_000_000), ("USD 2 trillion", 2_000_000_000_000),
        ("$5MM", 5_000_000), ("$1.2345678K", Decimal("1234.5678")), ("£12 thousand", 12_000),
        ("$1.5-million", 1_500_000), ("$5-7K", 5_000), ("$80K/year", 80_000),
        ("$80K-$100K", 80_000), ("80K-100K USD", 80_000), ("1-2M", REJECTED), ("from $1 to 2 million", 1_000_000),
        ("€3.4 billion", REJECTED), ("$1.2T", 1_200_000_000_000), ("$10.5–12.5 billion", 10_500_000_000),
        ("$1.2M¹", 1_200_000), ("£2bn²", 2_000_000_000),
        ("US$ mn 5", REJECTED), ("$ million 5", REJECTED), ("€m 5", REJECTED), ("K€5", REJECTED),
    ],
    "de": [
        ("2,3 Mrd. €", 2_300_000_000), ("1,5 Mio. €", 1_500_000), ("3 Millionen Euro", 3_000_000),
        ("450 Tsd. EUR", 450_000), ("12 T€", 12_000), ("5 MEUR", 5_000_000), ("2 Milliarden CHF", 2_000_000_000),
        ("TEUR 450", REJECTED), ("5-9 Mio. €", 5_000_000), ("Mio. € 2,3", REJECTED), ("2 Billion €", REJECTED),
        ("T€ 10", REJECTED), ("EUR mln 5", REJECTED), ("2024: TEUR 450", REJECTED),
    ],
    "fr": [
        ("2,3 Md€", 2_300_000_000), ("150 k€", 150_000), ("1,2 M€", 1_200_000), ("2 millions d'euros", 2_000_000),
        ("3 milliards €", 3_000_000_000), ("12 mille euros", 12_000), ("1 200 M€", 1_200_000_000),
    ],
    "es": [
        ("2 mil millones de euros", 2_000_000_000), ("50 mil €", REJECTED), ("3 millones €", 3_000_000),
        ("1,5 millón de dólares", 1_500_000), ("2 billones de euros", 2_000_000_000_000),
    ],
    "it": [
        ("5 milioni di euro", 5_000_000), ("1,5 mln €", 1_500_000), ("3 miliardi €", 3_000_000_000),
        ("50 mila euro", 50_000), ("2 mld €", 2_000_000_000),
    ],
    "pl": [
        ("10 mln zł", 10_000_000), ("250 tys. zł", 250_000), ("1,5 mld zł", 1_500_000_000),
        ("3 miliony złotych", 3_000_000),
    ],
    "pt": [("R$ 2,5 mi", 2_500_000), ("R$ 50 mil", 50_000), ("R$ 3 bi", 3_000_000_000), ("2 milhões €", 2_000_000)],
    "nl": [("€ 2 miljoen", 2_000_000), ("€ 1,5 miljard", 1_500_000_000), ("€ 12 duizend", 12_000)],
    "hi": [
        ("₹1.25 Cr", 12_500_000), ("₹45 Lakh", 4_500_000), ("₹ 45 लाख", 4_500_000), ("₹2.5 करोड़", 25_000_000),
        ("₹2 lakh crore", 2_000_000_000_000), ("₹1 Cr 25 L", 12_500_000), ("Rs. 45-60 Lakh", 4_500_000),
    ],
    "ja": [
        ("¥3.4万", 34_000), ("3億円", 300_000_000), ("1億2,000万円", 120_000_000), ("1万5000円", 15_000),
        ("25百万円", 25_000_000), ("25 百万円", 25_000_000), ("3万9,800円", 39_800), ("100万~200万円", 1_000_000),
    ],
    "ru": [
        ("300 тыс. руб.", 300_000), ("1,5 млн ₽", 1_500_000), ("2 миллиарда рублей", 2_000_000_000),
        ("450 т.р.", 450_000),
    ],
    "sv": [("12,5 mkr", 12_500_000), ("5 MSEK", 5_000_000), ("5 t.kr.", 5_000), ("3 miljoner kr", 3_000_000)],
    "hu": [("12 millió Ft", 12_000_000), ("12 e Ft", 12_000), ("12E Ft", 12_000), ("12 M Ft", 12_000_000)],
    "ko": [("5만원", 50_000), ("2억 3천만원", 230_000_000)],
}  # fmt: skip
"""By language, sums as pages write them; None of those that are rejected."""
WITH_LOCALE = [
    ("50 mil €", "es", 50_000), ("R$ 50 mil", "pt-BR", 50_000), ("$5 mil", "en", 5_000_000),
    ("2 billion €", "de-DE", 2_000_000_000_000), ("2 billion €", "en", 2_000_000_000),
    ("50 bin lira", "tr", 50_000), ("50 bin TL", "tr", 50_000), ("3 bln zł", "pl", 3_000_000_000_000),
    ("2,3 Mrd. €", "en", 2_300_000_000),
]  # fmt: skip
UNCHANGED = [
    ("$5 kg", 5), ("5 kg", 5), ("64 GB", 64), ("$5/m", 5), ("$5 m²", 5), ("5 mm", 5), ("16.00 ft", 16), ("5 mi", 5),
    ("5 l", 5), ("$5 l", 5), ("12 t", 12), ("4711", 4711), ("AB-4711", 4711), ("2024", 2024), ("+49 30 1234567", 49),
    ("12B-34", 12), ("20–30 €", 20), ("from 5 to 9 €", 5), ("12 €*", 12), ("12 €¹", 12), ("24K gold $450", 450),
    ("18K 450 €", 450), ("$450 (24K)", 450), ("24K $450", 450), ("4K TV 299 €", 299), ("2 m 5 €", 5), ("12 M 5 €", 5),
    ("5 € 12 M", 5), ("450 kr", 450), ("12 Kč", 12), ("5 million-seller €3", 3), ("2 for 5 €", 5),
    ("$500 - $1.2M", 500), ("12 Monate 5 €", 5), ("$5 m/s", 5), ("5 €/100 g", 5), ("4,99 €/m", Decimal("4.99")),
    ("1 T$", 1), ("5 bin €9", 9), ("12 mkb", 12), ("3 Kids 5 €", 5),
    ("€ 450.000 k.k.", 450_000), ("$1,500.00 M.N.", Decimal("1500.00")),
    ("$12 B&W print", 12), ("DVD Mia 5 €", 5), ("One Million EDT 5 €", 5), ("T$ 5", 5), ("5 千葉", 5),
]  # fmt: skip
"""Numbers whose word is a unit, or another word: of before."""
UNITS = ["1.5 Cr", "5-7 m", "12 M", "12 m", "2 m", "12 k", "12m", "15.5k views", "24K gold", "4K TV", "3.4B"]
"""A letter without a currency."""


def read(text: str, locale: str = "") -> int | Decimal | None:
    locales = (locale,) if locale else ()
    (row,) = extract(
        DataDef(name="d", fields=(Field(name="f", selector="p", type="price", locales=locales),)), f"<p>{text}</p>"
    ).rows or ({"f": {"amount": None}},)
    amount: Decimal | None = row["f"]["amount"]
    assert amount is None or "E" not in str(amount)
    return amount


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        (text, amount if text != "$1.2345678K" else Decimal("1234.5678"))
        for sums in SUMS.values()
        for text, amount in sums
    ],
)
def test_a_sum_is_read_whole_or_rejected(text: str, amount: int | Decimal | None) -> None:
    assert read(text) == amount


def test_the_table_of_sums_is_wide() -> None:
    assert sum(map(len, SUMS.values())) >= 60
    assert len(SUMS) >= 8


@pytest.mark.parametrize(("text", "locale", "amount"), WITH_LOCALE)
def test_the_language_decides_where_words_differ(text: str, locale: str, amount: int | None) -> None:
    assert read(text, locale) == amount


def test_the_language_may_stand_in_the_page() -> None:
    field: dict[str, Any] = {"selector": "p", "type": "price", "locales": ("xpath: string(/html/@lang)",)}
    assert value("<html lang=es-MX><p>$50 mil</p>", **field)["amount"] == 50_000
    assert value("<html lang=en><p>$50 mil</p>", **field)["amount"] == 50_000_000
    told = "'$50 mil': `mil` is 10^3 in `es`, 10^6 in `en`; add the `locale` of the text"
    assert reason("<html><p>$50 mil</p>", **field) == told


@pytest.mark.parametrize(("text", "amount"), UNCHANGED)
def test_units_and_other_words_leave_the_value(text: str, amount: int | Decimal) -> None:
    assert read(text) == amount


@pytest.mark.parametrize("text", UNITS)
def test_a_lone_letter_without_a_currency_is_rejected_with_the_text(text: str) -> None:
    told = reason(f"<p>{text}</p>", selector="p", type="price")
    assert told.startswith(f"{text!r}: `")
    assert told.endswith("as no currency stands beside it; pick out the price with `match`")


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1.2K", 1_200),
        ("15.5k", 15_500),
        ("2.2M", 2_200_000),
        ("$5 m", 5_000_000),
        ("$5 m cable", 5),
        ("$5 b", 5_000_000_000),
        ("$25 M Size", 25_000_000),
    ],
)
def test_a_letter_that_may_be_a_unit_is_a_warning(text: str, amount: int) -> None:
    document = page(f"<p>{text}</p>")
    field = Field(name="price", selector="p", type="price")
    (row,) = RecordExtractor(DataDef(name="home", fields=(field,))).extract(document, CONTEXT).rows
    assert row["price"]["amount"] == amount
    ((_, _, code, told),) = document.warnings.values()
    assert code == "guessed-magnitude"
    assert told.startswith(f"home.price: {text!r} is read as {amount}; ")


def test_a_range_whose_first_magnitude_is_open_is_a_warning() -> None:
    price = PriceReader(None, None).read("$1 - $2M")
    assert [price.amount, *[code for code, _ in price.doubts]] == [1, "guessed-magnitude"]


@pytest.mark.parametrize(
    ("text", "kind", "keys", "number"),
    [
        ("15.5k", "int", {}, 15_500),
        ("15.5k", "float", {}, 15_500.0),
        ("1.25 Mio.", "decimal", {}, Decimal(1_250_000)),
        ("1.2345678k", "decimal", {}, Decimal("1234.5678")),
        ("2,3 Mrd", "int", {"decimal_mark": ","}, 2_300_000_000),
        ("1.200,5 Tsd.", "int", {"decimal_mark": ",", "group_mark": "."}, 1_200_500),
        ("-2.2M", "int", {}, -2_200_000),
        ("2.2m", "int", {}, 2_200_000),
        ("3.4万", "int", {}, 34_000),
        ("45 lakh", "int", {}, 4_500_000),
        ("12", "int", {}, 12),
        ("1.5e3", "float", {}, 1500.0),
        ("1e400k", "decimal", {}, Decimal(10) ** 403),
        ("2 mil", "int", {"locales": ("pt",)}, 2_000),
    ],
)
def test_numbers_read_magnitudes_by_a_key(text: str, kind: str, keys: dict[str, Any], number: object) -> None:
    read_as = value(f"<p>{text}</p>", selector="p", type=kind, magnitudes=True, **keys)
    assert read_as == number
    assert type(read_as) is type(number)
    if text not in ("12", "1.5e3"):
        assert "is not a" in reason(f"<p>{text}</p>", selector="p", type=kind, **keys | {"locales": ()})


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("15.5k views", "int", "'15.5k views' is not a number with a word of magnitude"),
        ("15,5k", "int", "'15,5k': '15,5' is not a number with the decimal mark '.'"),
        ("2 m", "int", "'2 m' is not a number with a word of magnitude"),
        ("5 b", "int", "'5 b' is not a number with a word of magnitude"),
        ("5 mm", "int", "'5 mm' is not a number with a word of magnitude"),
        ("5 l", "int", "'5 l' is not a number with a word of magnitude"),
        ("5 kg", "int", "'5 kg' is not a number with a word of magnitude"),
        ("k", "int", "'k' is not a whole number"),
        ("1.2345k", "int", "'1.2345k': '1234.5' is not a whole number"),
        ("1e400k", "float", "is too large for a float"),
        ("99999999T", "int", "does not fit in 64 bits"),
        ("2 billion", "int", "'2 billion': `billion` is 10^9 in `en`, 10^12 in `de`; add the `locale` of the text"),
    ],
)
def test_what_is_no_such_number_is_rejected(text: str, kind: str, told: str) -> None:
    assert told in reason(f"<p>{text}</p>", selector="p", type=kind, magnitudes=True)


def test_lists_json_and_defaults_read_magnitudes() -> None:
    assert value("<i>1.2k</i><i>3M</i>", selector="i", type="int", magnitudes=True, all=True) == [1_200, 3_000_000]
    assert value("<i>1.2k, 3M</i>", selector="i", type="int", magnitudes=True, split=",") == [1_200, 3_000_000]
    data = '{"price": "$1.2M", "views": "15.5k"}'
    assert value(data, kind="json", selector="jmespath: price", type="price")["amount"] == 1_200_000
    assert value(data, kind="json", selector="jmespath: views", type="int", magnitudes=True) == 15_500
    assert value("", selector="i", type="price", default="€1.5M", has_default=True)["amount"] == 1_500_000
    assert value("<i>few</i>", selector="i", type="int", magnitudes=True, map={"few": "3"}) == 3
    assert value("", selector="i", type="int", magnitudes=True, default=7, has_default=True) == 7


@pytest.mark.parametrize(
    ("text", "keys", "word"),
    [
        ("$1.2M", {"match": r"[\d.,]+", "type": "float"}, "M"),
        ("$1.2M", {"match": r"[\d.,]+", "type": "str"}, "M"),
        ("₹45 Lakh", {"match": r"\d+", "type": "int"}, "Lakh"),
        ("2,3 Mrd. €", {"match": r"[\d,]+", "type": "price"}, "Mrd."),
        ("15.5k views", {"match": r"([\d.]+)", "type": "decimal"}, "k"),
        ("$1.2M", {"replace": (("[^0-9.]", ""),), "type": "decimal"}, "M"),
        ("4K TV", {"match": "([0-9]+)K", "type": "int"}, None),
        ("24K gold $450", {"match": r"\$(\d+)", "type": "int"}, None),
        ("12 m", {"match": r"\d+", "type": "int"}, None),
        ("64 GB", {"match": r"\d+", "type": "int"}, None),
        ("$1.2M", {"replace": (("[$M]", ""),), "type": "decimal"}, None),
        ("12 kg", {"replace": (("[^0-9.]", ""),), "type": "decimal"}, None),
    ],
)
def test_a_magnitude_that_is_left_beside_a_number_is_a_warning(text: str, keys: Any, word: str | None) -> None:
    document = page(f"<p>{text}</p>")
    RecordExtractor(DataDef(name="home", fields=(Field(name="price", selector="p", **keys),))).extract(
        document, CONTEXT
    )
    assert [one[:3] for one in document.warnings.values()] == ([("home", "price", "magnitude-left")] if word else [])
    for warning in document.warnings.values():
        assert f"`{word}`" in warning.text
        assert f"of {text!r}" in warning.text


def test_words_end_where_the_text_says() -> None:
    found = find_magnitude("2 mil millones de euros", 1)
    assert found is not None
    assert (found.exponent, found.end) == (9, len("2 mil millones"))
    assert find_magnitude("5 millionaires", 1) is None
    assert find_magnitude("5", 1) is None
