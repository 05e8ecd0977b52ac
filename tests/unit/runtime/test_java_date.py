"""Dates in Java's patterns."""

from datetime import datetime

import pytest

from crawl_engine.runtime.java_date import DateInvalid, check_pattern, format_date, parse_date, roll_day

NOON = datetime(2016, 2, 5, 13, 4, 9, 250_000)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd", "2016-02-05"), ("dd-MM-yyyy HH:mm:ss", "05-02-2016 13:04:09"), ("d/M/yy", "5/2/16"),
        ("MMM ''YY", "Feb '16"), ("EEEE, d MMMM yyyy", "Friday, 5 February 2016"), ("EEE", "Fri"),
        ("h:mm a", "1:04 PM"), ("hh:mm", "01:04"), ("yyyy.MM.dd 'at' HH''mm", "2016.02.05 at 13'04"),
        ("yyyyMMdd'T'HHmmss.SSS", "20160205T130409.250"), ("'it''s' y", "it's 2016"), ("D", "36"), ("100%", "100%"),
    ],
)  # fmt: skip
def test_a_date_is_written_and_read(pattern: str, text: str) -> None:
    assert format_date(NOON, pattern) == text


@pytest.mark.parametrize(
    ("text", "patterns", "date"),
    [
        ("Dec '16", ("MMM ''YY",), datetime(2016, 12, 1)),
        (" Mar  '09 ", ("yyyy", "MMM ''YY"), datetime(2009, 3, 1)),
        ("31.12.1999", ("dd.MM.yyyy",), datetime(1999, 12, 31)),
        ("5 February 2016", ("d MMMM yyyy",), datetime(2016, 2, 5)),
    ],
)
def test_a_date_is_read_by_the_first_pattern_that_fits(text: str, patterns: tuple[str, ...], date: datetime) -> None:
    assert parse_date(text, patterns) == date


@pytest.mark.parametrize(("to", "day"), [("ceil", 29), ("floor", 1), ("round", 1), ("15", 15), ("31", 29)])
def test_the_day_is_rolled(to: str, day: int) -> None:
    assert roll_day(NOON, to).day == day


def test_round_takes_the_nearer_end() -> None:
    assert roll_day(datetime(2016, 2, 20), "round").day == 29


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("yyyy 'x", "has an open quote"), ("QQ", "'QQ' in the date pattern"), ("MMMMM", "'MMMMM' in the date pattern")],
)
def test_a_pattern_without_a_meaning_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(DateInvalid, match=message):
        check_pattern(pattern)


def test_a_text_that_is_no_date_is_refused() -> None:
    with pytest.raises(DateInvalid, match=r"'yesterday' is not a date of the form yyyy or MMM ''YY"):
        parse_date("yesterday", ("yyyy", "MMM ''YY"))
