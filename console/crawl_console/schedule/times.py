"""When a crawl starts: at times of the day, of days or months, or by a line of cron."""

import datetime
import re
from collections.abc import Collection, Sequence

from cronsim import CronSim, CronSimError
from msgspec import Struct

from crawl_engine.errors import UsageError, suggest

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TIMES = r"[0-9]{1,2}:[0-9]{2}(?:,[0-9]{1,2}:[0-9]{2})*"
_SPEC = re.compile(rf"(?:([^\W\d_]+(?:[,-][^\W\d_]+)*)\s+)?({_TIMES})", re.ASCII)
_MONTHLY = re.compile(rf"monthly(?:\s+({_TIMES}))?", re.ASCII | re.IGNORECASE)
_HOURLY = "0 * * * *"
_STEPS = re.compile(r"\*/[0-9]{1,4}")
_FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
"""The least and the greatest value of each field of cron."""
_ANY_DAY = datetime.datetime(2024, 1, 1)
_REMEDY = (
    'Write hourly, times such as 03:30 or 06:00,18:00, days with times such as "Mon 03:30" or "Mon-Fri 06:00", '
    '"monthly 03:30", or five fields of cron, such as "*/15 * * * *". Times are local.'
)


class Times(Struct, frozen=True):
    """`text`: as it is shown, and read again. `cron`: the five fields of a line of cron."""

    text: str
    cron: str

    def __str__(self) -> str:
        return self.text

    @property
    def calendars(self) -> list[str]:
        """Each as `OnCalendar=` of a timer. Where a day of the month or of the week is enough, two."""
        if self.cron == _HOURLY:
            return ["hourly"]
        minutes, hours, days, months, weekdays = map(_values_of, self.cron.split(), _FIELDS)
        time = f"{_join(hours)}:{_join(minutes)}:00"
        names = "" if weekdays is None else ",".join(DAYS[at] for at in sorted((day - 1) % 7 for day in weekdays)) + " "
        if names and days is not None:
            return [f"{names}*-{_join(months)}-* {time}", f"*-{_join(months)}-{_join(days)} {time}"]
        return [f"{names}*-{_join(months)}-{_join(days)} {time}"]

    def next_after(self, now: datetime.datetime) -> datetime.datetime:
        """The next start after a local time."""
        return next(CronSim(self.cron, now))


def parse_times(text: str) -> Times:
    """The times of a SPEC. Raises UsageError, which shows what may be written."""
    words = text.strip()
    if words.lower() == "hourly":
        return Times("hourly", _HOURLY)
    if (monthly := _MONTHLY.fullmatch(words)) is not None:
        clock, shown = _read_clock(text, monthly[1] or "00:00")
        return Times(f"monthly {shown}", f"{clock} 1 * *")
    if (match := _SPEC.fullmatch(words)) is not None:
        clock, shown = _read_clock(text, match[2])
        if match[1] is None:
            return Times(shown, f"{clock} * * *")
        days = _read_days(text, match[1])
        numbers = _list(sorted((day + 1) % 7 for day in days))
        return Times(f"{','.join(DAYS[day] for day in days)} {shown}", f"{clock} * * {numbers}")
    if len(words.split()) == len(_FIELDS):
        cron = _read_cron(text, words)
        return Times(cron, cron)
    raise UsageError(f"--at {text!r} is not a time{suggest(words, ['hourly', 'monthly'])}", _REMEDY)


def _read_clock(text: str, written: str) -> tuple[str, str]:
    """The minute and the hours of cron, and the times as they are shown."""
    times = sorted({(int(hour), int(minute)) for hour, minute in (time.split(":") for time in written.split(","))})
    for hour, minute in times:
        if hour > 23 or minute > 59:
            raise UsageError(f"--at {text!r}: a day has no {hour:02}:{minute:02}", _REMEDY)
    minutes = {minute for _, minute in times}
    if len(minutes) > 1:
        raise UsageError(
            f"--at {text!r}: a line of cron has one minute for all its hours",
            f"Make two schedules, or write the same minute. {_REMEDY}",
        )
    shown = ",".join(f"{hour:02}:{minute:02}" for hour, minute in times)
    return f"{minutes.pop()} {_list([hour for hour, _ in times])}", shown


def _read_days(text: str, written: str) -> list[int]:
    """The weekdays of a list with ranges, from Monday, 0."""
    days: set[int] = set()
    for part in written.split(","):
        first, _, last = part.partition("-")
        start, end = _find_day(text, first), _find_day(text, last or first)
        days.update((start + at) % 7 for at in range((end - start) % 7 + 1))
    return sorted(days)


def _find_day(text: str, day: str) -> int:
    word = day.capitalize()
    for number, names in enumerate(zip(DAYS, _NAMES, strict=True)):
        if word in names:
            return number
    raise UsageError(f"--at {text!r}: {day!r} is not a day{suggest(word, list(_NAMES))}", _REMEDY)


def _read_cron(text: str, words: str) -> str:
    """Five fields, as cron, systemd and Kubernetes read them alike. Raises UsageError."""
    try:
        rule = CronSim(words, _ANY_DAY)
        next(rule)
    except (CronSimError, StopIteration) as error:
        reason = str(error) or "it never comes"
        raise UsageError(f"--at {text!r}: {reason[:1].lower()}{reason[1:]}", _REMEDY) from None
    sets: Sequence[Collection[object]] = (rule.minutes, rule.hours, rule.days, rule.months, rule.weekdays)
    fields = []
    for written, values, (least, most) in zip(words.split(), sets, _FIELDS, strict=True):
        numbers = {value % 7 if most == 6 else value for value in values if isinstance(value, int)}
        is_known = all(isinstance(value, int) for value in values)
        if not is_known or min(numbers) < least:  # `L` and `5#2`
            raise UsageError(f"--at {text!r}: systemd and Kubernetes do not read {written!r}", _REMEDY)
        is_whole = len(numbers) == most - least + 1
        fields.append("*" if is_whole else written if _STEPS.fullmatch(written) else _list(sorted(numbers)))
    if not rule.day_and and "*" in (fields[2], fields[4]):  # one that names all days is enough
        fields[2] = fields[4] = "*"
    if any(_STEPS.fullmatch(one) and other != "*" for one, other in ((fields[2], fields[4]), (fields[4], fields[2]))):
        message = f"--at {text!r}: cron and Kubernetes read steps of days beside weekdays differently"
        raise UsageError(message, f"Write out the days. {_REMEDY}")
    return " ".join(fields)


def _values_of(field: str, bounds: tuple[int, int]) -> list[int] | None:
    """The values of a field; None: all of them."""
    if field == "*":
        return None
    if field.startswith("*/"):
        return list(range(bounds[0], bounds[1] + 1, int(field[2:])))
    return [int(value) for value in field.split(",")]


def _join(values: Sequence[int] | None) -> str:
    return "*" if values is None else ",".join(f"{value:02}" for value in values)


def _list(values: Sequence[int]) -> str:
    return ",".join(map(str, values))
