"""The hours in which a host is asked."""

import time
from collections.abc import Iterator

import pytest

from crawl_engine.model.host import seconds_until_open


@pytest.fixture(params=["UTC", "Europe/Berlin", "America/New_York"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def at(clock: str, day: int = 15, month: int = 6) -> float:
    return time.mktime((2026, month, day, int(clock[:2]), int(clock[3:]), 0, 0, 0, -1))


@pytest.mark.parametrize(
    ("hours", "now", "wait"),
    [
        ("22:00-06:00", "23:30", 0), ("22:00-06:00", "05:59", 0), ("22:00-06:00", "22:00", 0),
        ("22:00-06:00", "06:00", 16 * 3600), ("22:00-06:00", "21:59", 60),
        ("08:00-12:30", "12:29", 0), ("08:00-12:30", "12:30", 19.5 * 3600), ("08:00-12:30", "07:00", 3600),
        ("00:00-12:00", "23:00", 3600),
    ],
)  # fmt: skip
def test_seconds_until_the_hours_begin(zone: str, hours: str, now: str, wait: float) -> None:
    assert seconds_until_open(hours, at(now)) == wait


def test_the_end_of_a_month_and_of_summer_time_change_nothing(zone: str) -> None:
    assert seconds_until_open("08:00-12:00", at("12:00", 31, 12)) == 20 * 3600
    begins = at("12:00", 24, 10) + seconds_until_open("08:00-12:00", at("12:00", 24, 10))
    assert time.localtime(begins)[2:5] == (25, 8, 0)
