"""SPEC: what it means for systemd, for cron and for the next start, and what is refused."""

import datetime
import shutil
import subprocess

import pytest

from crawl_console.schedule.times import parse_times
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
    ("18:00,6:00", "06:00,18:00", "*-*-* 06,18:00:00", "0 6,18 * * *", "2026-11-28 18:00"),
    ("Thu,Mon 06:00", "Mon,Thu 06:00", "Mon,Thu *-*-* 06:00:00", "0 6 * * 1,4", "2026-11-30 06:00"),
    ("Sat-mon 06:00", "Mon,Sat,Sun 06:00", "Mon,Sat,Sun *-*-* 06:00:00", "0 6 * * 0,1,6", "2026-11-29 06:00"),
    ("monthly 03:30", "monthly 03:30", "*-*-01 03:30:00", "30 3 1 * *", "2026-12-01 03:30"),
    ("Monthly", "monthly 00:00", "*-*-01 00:00:00", "0 0 1 * *", "2026-12-01 00:00"),
    ("*/15 * * * *", "*/15 * * * *", "*-*-* *:00,15,30,45:00", "*/15 * * * *", "2026-11-28 16:45"),
    (
        "30  3 * * mon-fri",
        "30 3 * * 1,2,3,4,5",
        "Mon,Tue,Wed,Thu,Fri *-*-* 03:30:00",
        "30 3 * * 1,2,3,4,5",
        "2026-11-30 03:30",
    ),
    ("0 0 * * 7", "0 0 * * 0", "Sun *-*-* 00:00:00", "0 0 * * 0", "2026-11-29 00:00"),
    ("0 12 29 feb *", "0 12 29 2 *", "*-02-29 12:00:00", "0 12 29 2 *", "2028-02-29 12:00"),
    ("0 */6 1-3/2 * *", "0 */6 1,3 * *", "*-*-01,03 00,06,12,18:00:00", "0 */6 1,3 * *", "2026-12-01 00:00"),
    ("0 0 1-31 * 1", "0 0 * * *", "*-*-* 00:00:00", "0 0 * * *", "2026-11-29 00:00"),  # one of the days is enough
    ("0 0 1 * 0-6", "0 0 * * *", "*-*-* 00:00:00", "0 0 * * *", "2026-11-29 00:00"),
    ("0 * * * *", "0 * * * *", "hourly", "0 * * * *", "2026-11-28 17:00"),
]


@pytest.mark.parametrize(("text", "name", "calendar", "cron", "next_at"), SPECS)
def test_a_spec(text: str, name: str, calendar: str, cron: str, next_at: str) -> None:
    times = parse_times(text)
    assert (str(times), times.calendars, times.cron) == (name, [calendar], cron)
    assert f"{times.next_after(NOW):%Y-%m-%d %H:%M}" == next_at
    assert parse_times(name) == times


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("text", [spec[0] for spec in SPECS])
def test_systemd_finds_the_same_next_start(text: str) -> None:
    times = parse_times(text)
    base = [f"--base-time={NOW:%Y-%m-%d %H:%M:%S} UTC"]
    done = subprocess.run(
        ["systemd-analyze", "calendar", *base, *times.calendars],
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
        ("30 3 * *", "is not a time"),
        ("06:00,18:30", "a line of cron has one minute for all its hours"),
        ("Mon,Foo 06:00", "'Foo' is not a day"),
        ("monthly 25:00", "a day has no 25:00"),
        ("30 2 31 2 *", "bad day-of-month"),
        ("61 * * * *", "bad minute"),
        ("0 0 L * *", "do not read 'L'"),
        ("0 0 * * 5#2", "do not read '5#2'"),
        ("0 0 1 * MON,5L", "do not read 'MON,5L'"),
        ("0 0 * * FRI#2,MON", "do not read 'FRI#2,MON'"),
        ("0 0 */2 * 1", "read steps of days beside weekdays differently"),
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
        at = parse_times("hourly").next_after(at)
    assert at == datetime.datetime(2026, 1, 2)


def test_a_day_of_the_month_or_of_the_week_is_enough_to_cron() -> None:
    times = parse_times("0 6 13 * 5")
    assert times.calendars == ["Fri *-*-* 06:00:00", "*-*-13 06:00:00"]
    assert f"{times.next_after(NOW):%Y-%m-%d}" == "2026-12-04"
