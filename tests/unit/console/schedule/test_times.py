"""SPEC: what it means for systemd, for cron and for the next start, and what is refused."""

import datetime
import shutil
import subprocess

import pytest

from crawl_console.schedule.times import Times, parse_times
from crawl_engine.errors import UsageError

NOW = datetime.datetime(2026, 11, 28, 16, 30, 5)
"""A Saturday."""
SPECS = [
    ("hourly", "hourly", "hourly", "0 * * * *", "2026-11-28 17:00"),
    ("3:30", "03:30", "*-*-* 03:30:00", "30 3 * * *", "2026-11-29 03:30"),
    (" 23:59 ", "23:59", "*-*-* 23:59:00", "59 23 * * *", "2026-11-28 23:59"),
    ("16:30", "16:30", "*-*-* 16:30:00", "30 16 * * *", "2026-11-29 16:30"),
    ("Mon 03:30", "Mon 03:30", "Mon *-*-* 03:30:00", "30 3 * * 1", "2026-11-30 03:30"),
    ("sunday 00:00", "Sun 00:00", "Sun *-*-* 00:00:00", "0 0 * * 0", "2026-11-29 00:00"),
    ("SAT 16:30", "Sat 16:30", "Sat *-*-* 16:30:00", "30 16 * * 6", "2026-12-05 16:30"),
    ("Sat 16:31", "Sat 16:31", "Sat *-*-* 16:31:00", "31 16 * * 6", "2026-11-28 16:31"),
]


@pytest.mark.parametrize(("text", "name", "calendar", "cron", "next_at"), SPECS)
def test_a_spec(text: str, name: str, calendar: str, cron: str, next_at: str) -> None:
    times = parse_times(text)
    assert (str(times), times.calendar, times.cron) == (name, calendar, cron)
    assert f"{times.next_after(NOW):%Y-%m-%d %H:%M}" == next_at
    assert parse_times(name) == times


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("text", [spec[0] for spec in SPECS])
def test_systemd_finds_the_same_next_start(text: str) -> None:
    times = parse_times(text)
    base = [f"--base-time={NOW:%Y-%m-%d %H:%M:%S} UTC"]
    done = subprocess.run(
        ["systemd-analyze", "calendar", *base, times.calendar],
        capture_output=True,
        text=True,
        check=True,
        env={"TZ": "UTC"},
    )
    assert f"{times.next_after(NOW):%Y-%m-%d %H:%M:%S}" in done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a time"),
        ("hurly", "did you mean 'hourly'"),
        ("24:00", "a day has no 24:00"),
        ("3:5", "is not a time"),
        ("12:60", "a day has no 12:60"),
        ("Montag 03:30", "'Montag' is not a day"),
        ("Mondy 03:30", "did you mean 'Monday'"),
        ("every 5 minutes", "is not a time"),
        ("30 3 * * 1", "is not a time"),
        ("03:30\nUser=root", "is not a time"),
    ],
)
def test_a_spec_that_means_nothing_is_told_with_examples(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_times(text)
    assert said in refused.value.message
    assert '"Mon 03:30"' in refused.value.remedy
    assert refused.value.exit_code == 2


def test_an_hour_of_24_starts() -> None:
    at = datetime.datetime(2026, 1, 1)
    for _ in range(24):
        at = Times().next_after(at)
    assert at == datetime.datetime(2026, 1, 2)
