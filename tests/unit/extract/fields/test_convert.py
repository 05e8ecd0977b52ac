"""Conversion of texts to values: strict, exact, with a reason for each rejection."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.extract.fields.convert import reader_of
from crawl_engine.model.definition import Field

BASE = "https://h.example/a/b"


def convert(kind: str, text: str, **more: Any) -> Any:
    return reader_of(kind).converter(Field(name="f", type=kind, **more))(text, BASE)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("str", "x", "x"),
        ("int", "42", 42),
        ("int", "+42", 42),
        ("int", "-042", -42),
        ("int", "9223372036854775807", 2**63 - 1),
        ("int", "-9223372036854775808", -(2**63)),
        ("float", "1.5", 1.5),
        ("float", "+.5", 0.5),
        ("float", "5.", 5.0),
        ("float", "-1e3", -1000.0),
        ("bool", "TRUE", True),
        ("bool", "yes", True),
        ("bool", "1", True),
        ("bool", "No", False),
        ("bool", "false", False),
        ("bool", "0", False),
        ("date", "2024-01-31", "2024-01-31"),
        ("date", "20240131", "2024-01-31"),
        ("date", "2024-01-31T09:05", "2024-01-31T09:05:00"),
        ("date", "2024-01-31T09:05:06Z", "2024-01-31T09:05:06+00:00"),
        ("url", "../c?d#e", "https://h.example/c?d#e"),
        ("url", "mailto:a@b.example", "mailto:a@b.example"),
        ("file", "//us:pw@h.example/c.pdf", "https://h.example/c.pdf"),
        ("json", '{"a": [1, null, "x  y"]}', {"a": [1, None, "x  y"]}),
        ("json", "3", 3),
        ("json", '[1.10, 1e3, "1.5"]', [Decimal("1.10"), 1000.0, "1.5"]),
        ("json", f"[{10**30}, 0.1]", [10**30, Decimal("0.1")]),
    ],
)
def test_valid_texts_are_converted(kind: str, text: str, value: Any) -> None:
    result = convert(kind, text)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "1,000"),
        ("int", "1_000"),
        ("int", "1.0"),
        ("int", "٣"),
        ("int", "--1"),
        ("int", "9223372036854775808"),
        ("int", "9" * 5_000),
        ("float", "1,5"),
        ("float", "nan"),
        ("float", "inf"),
        ("float", "1e999"),
        ("float", "."),
        ("float", "1_0.0"),
        ("decimal", "NaN"),
        ("decimal", "1,000.00"),
        ("decimal", "1e999999"),
        ("decimal", "1" * 1_001),
        ("bool", "In stock"),
        ("date", "31/01/2024"),
        ("date", "yesterday"),
        ("date", "2024-13-01"),
        ("date", "1" * 10_000),
        ("url", "http://["),
        ("json", "{a: 1}"),
        ("json", "NaN"),
        ("json", "[" * 300 + "]" * 300),
        ("json", "[" * 100_000),
    ],
)
def test_invalid_texts_are_rejected_with_a_short_reason(kind: str, text: str) -> None:
    with pytest.raises(ValueError) as error:
        convert(kind, text)
    assert 10 < len(str(error.value)) < 250


@pytest.mark.parametrize("text", ["http://u:secret@h:99999/", "//u:secret@[::1/", "http://u:a/secret@h/"])
def test_an_invalid_url_is_quoted_without_its_password(text: str) -> None:
    with pytest.raises(ValueError, match="is not a URL") as error:
        convert("url", text)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("digits", ["19.90", "0.10", "-007.500", "1e3", "12345678901234567890.123456789"])
def test_decimals_keep_their_digits(digits: str) -> None:
    result = convert("decimal", digits)
    assert isinstance(result, Decimal)
    assert result.as_tuple() == Decimal(digits).as_tuple()


@pytest.mark.parametrize(
    ("date_format", "text", "value"),
    [
        ("%d.%m.%Y", "31.01.2024", "2024-01-31"),
        ("%d %B %Y", "31 January 2024", "2024-01-31"),
        ("%d/%m/%y %H:%M", "31/01/24 09:05", "2024-01-31T09:05:00"),
        ("%Y-%m-%d %H:%M:%S %z", "2024-01-31 09:05:06 +0100", "2024-01-31T09:05:06+01:00"),
        ("100%% %Y", "100% 2024", "2024-01-01"),
        ("unix", "1700000000", "2023-11-14T22:13:20+00:00"),
        ("unix", "-86400", "1969-12-31T00:00:00+00:00"),
        ("unix", "1.7000000005e9", "2023-11-14T22:13:20.500000+00:00"),
        ("unix", "0", "1970-01-01T00:00:00+00:00"),
        ("unix-ms", "1700000000123", "2023-11-14T22:13:20.123000+00:00"),
        ("unix-ms", "-1", "1969-12-31T23:59:59.999000+00:00"),
    ],
)
def test_dates_by_format(date_format: str, text: str, value: str) -> None:
    assert convert("date", text, format=date_format) == value


@pytest.mark.parametrize("date_format", ["%d.%m.%Y", "%", "%Q", "%d %d", "", "%Y" * 3])
def test_a_mismatching_date_or_an_invalid_format_is_rejected(date_format: str) -> None:
    with pytest.raises(ValueError, match="does not match the date format"):
        convert("date", "x", format=date_format)


@pytest.mark.parametrize(
    ("date_format", "text", "reason"),
    [
        ("unix", "1700000000123", "beyond the years 1 to 9999; is it in milliseconds? use `format: unix-ms`"),
        ("unix-ms", "9" * 20, "'99999999999999999999' is beyond the years 1 to 9999"),
        ("unix", "1e99", "beyond the years"),
        ("unix", "2024-01-31", "'2024-01-31' is not a number"),
        ("unix", "0x10", "is not a number"),
        ("unix", "\u0661", "is not a number"),
        (None, "1700000000", "is it a time since 1970? use `format: unix`"),
        (None, "20240131120000", "use `format: '%Y%m%d%H%M%S'`"),
        (None, "202401311200", "use `format: '%Y%m%d%H%M'`"),
        (None, "1712010101123", "is it a time since 1970? use `format: unix-ms`"),  # not a moment of 1712
    ],
)
def test_a_number_that_is_no_date_is_rejected(date_format: str | None, text: str, reason: str) -> None:
    with pytest.raises(ValueError) as error:
        convert("date", text, format=date_format)
    assert reason in str(error.value)


def test_a_default_of_a_date_that_is_a_number_may_be_iso_8601() -> None:
    read = reader_of("date").default_converter(Field(name="f", type="date", format="unix"))
    assert read("2024-01-31", BASE) == "2024-01-31T00:00:00+00:00"
    assert read("2024-01-31T10:00:00+02:00", BASE) == "2024-01-31T10:00:00+02:00"
    assert read("60", BASE) == "1970-01-01T00:01:00+00:00"


def test_a_bool_with_match_is_true_if_it_matches() -> None:
    assert convert("bool", "no", match="no|yes") is True
    assert reader_of("bool").default_converter(Field(name="f", type="bool", match="x"))("no", BASE) is False


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_round_trip(number: int) -> None:
    assert convert("int", str(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_round_trip(number: float) -> None:
    assert convert("float", repr(number)) == number


@given(st.sampled_from(["int", "float", "decimal", "bool", "date", "url", "json"]), st.text())
def test_any_text_is_converted_or_rejected(kind: str, text: str) -> None:
    try:
        convert(kind, text)
    except ValueError:
        pass
