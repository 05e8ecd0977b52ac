"""Dates as people write them, by locale; relative ones by the time of the fetch; hostile texts in bounded time."""

import contextlib
import time
from typing import Any

import pytest

from crawl_engine.extract.fields.human_dates import MAX_LENGTH, HumanDates
from crawl_engine.extract.page.patterns import OutOfTime
from crawl_engine.model.definition import DataDef, Field
from tests.unit.extract.pages import extract, reason, value

from .test_prices import loaded_modules

FETCHED_AT = 1_714_979_289.0  # 2024-05-06T07:08:09Z
DATE: dict[str, Any] = {"selector": "time", "type": "date", "format": "any"}


def test_of_several_locales_the_first_that_reads_a_text_counts() -> None:
    dates = HumanDates(["en-GB", "de", "fr"])
    for text, expected in (
        ("3 May 2024", "2024-05-03"), ("3. Mai 2024", "2024-05-03"), ("14 juillet 2023", "2023-07-14"),
        ("3/4/2024", "2024-04-03"), ("vor 2 Stunden", "2024-05-06T05:08:09"), ("yesterday", "2024-05-05"),
    ):  # fmt: skip
        assert dates.parse(text, FETCHED_AT) == expected
    assert HumanDates(["en", "de"]).parse("3/4/2024", FETCHED_AT) == "2024-03-04"
    assert HumanDates(["de", "en"]).parse("3/4/2024", FETCHED_AT) == "2024-04-03"
    with pytest.raises(ValueError, match="is not a date in the locales 'en', 'de'"):
        HumanDates(["en", "de"]).parse("14 juillet 2023", FETCHED_AT)


@pytest.mark.parametrize(
    ("locale", "text", "expected"),
    [
        ("de", "3. März 2024", "2024-03-03"),
        ("de", "Mi, 6. März 2024, 14:30 Uhr", "2024-03-06T14:30:00"),
        ("de", "03.04.24", "2024-04-03"),
        ("en", "3/4/2024", "2024-03-04"),
        ("en-GB", "3/4/2024", "2024-04-03"),
        ("fr", "le 14 juillet 2023", "2023-07-14"),
        ("de", "2024-03-04T10:11:12+01:00", "2024-03-04T09:11:12+00:00"),
        ("de", "März 2024", "2024-03-01"),
        ("de", "3. März", "2024-03-03"),
        ("de", "vor 2 Stunden", "2024-05-06T05:08:09"),
        ("de", "gestern", "2024-05-05"),
        ("en", "3 days ago", "2024-05-03"),
        ("en", "/Date(1700000000123)/", "2023-11-14T22:13:20.123000+00:00"),
        ("de", "/Date(86400000+0100)/", "1970-01-02T00:00:00+00:00"),
        ("de", "/Date(-86400000)/", "1969-12-31T00:00:00+00:00"),
    ],
)
def test_a_date_is_iso_8601(locale: str, text: str, expected: str) -> None:
    assert HumanDates([locale]).parse(text, FETCHED_AT) == expected


@pytest.mark.parametrize("text", ["12", "14:30", "2024", "xx", "31.02.2024", "1700000000", "()"])
def test_another_text_rejects_the_record(text: str) -> None:
    assert reason(f"<time>{text}</time>", locales=("de",), **DATE) == f"{text!r} is not a date in the locale 'de'"


def test_a_date_of_net_beyond_all_years_is_rejected() -> None:
    text = "/Date(99999999999999999)/"
    assert reason(f"<time>{text}</time>", locales=("en",), **DATE) == f"{text!r} is beyond the years 1 to 9999"


def test_a_number_is_no_month() -> None:
    assert reason("<time>12</time>", locales=("en",), **DATE) == "'12' is not a date in the locale 'en'"


def test_a_date_is_a_value_like_others() -> None:
    assert value("<time>gestern</time>", locales=("de",), **DATE) == "1969-12-31", "the page was fetched at 0"
    assert value("<time></time>", locales=("de",), default="2024-01-31", has_default=True, **DATE) == "2024-01-31"
    assert value("<time>am 3. Mai 2024</time>", locales=("de",), match="[0-9].*", **DATE) == "2024-05-03"
    assert value("<time>1. Mai 2024; 2. Mai 2024</time>", locales=("de",), split=";", **DATE) == [
        "2024-05-01",
        "2024-05-02",
    ]
    assert "longer than 100" in reason(f"<time>{'1' * 101}</time>", locales=("de",), **DATE)
    assert "xx" in reason("<time>1</time>", locales=("xx",), **DATE)


def test_the_worst_text_takes_milliseconds() -> None:
    dates = HumanDates(["de"])
    for piece in (
        "1 ",
        "1.",
        "1/",
        "1:1:1 ",
        "märz ",
        "vor 1 jahr ",
        "(",
        "1-",
        "١ ",
        "montag ",
        "9",
        "Uhr um ",
        "\ud83d",
    ):
        began = time.process_time()
        with contextlib.suppress(ValueError):
            dates.parse((piece * MAX_LENGTH)[:MAX_LENGTH], FETCHED_AT)
        assert time.process_time() - began < 0.2, piece


def test_many_dates_obey_the_patience_of_the_caller() -> None:
    data_def = DataDef(name="d", fields=(Field(name="f", all=True, locales=("de",), **DATE),))
    with pytest.raises(OutOfTime):
        extract(data_def, "<time>1.5.2024</time>" * 100, patience=0.0)


def test_the_library_is_loaded_by_fields_that_use_it() -> None:
    field = "from crawl_engine.extract.fields.fields import *; FieldReader(Field(name='f', type='date'"
    assert "dateparser" not in loaded_modules("import crawl_engine.node.build, crawl_engine.defs.loader")
    assert "dateparser" not in loaded_modules(field + ", format='%Y'))")
    assert "dateparser" in loaded_modules(field + ", format='any', locales=('de',)))")
