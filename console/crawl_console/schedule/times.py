"""When a crawl starts: `hourly`, `HH:MM` or `DAY HH:MM`, in the words of systemd and of cron."""

import datetime
import re

from msgspec import Struct

from crawl_engine.errors import UsageError, suggest

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SPEC = re.compile(r"(?:([^\W\d_]+)\s+)?([0-9]{1,2}):([0-9]{2})", re.ASCII)
_REMEDY = 'Write hourly, a time such as 03:30, or a day with a time such as "Mon 03:30". Times are local.'


class Times(Struct, frozen=True):
    """Without hour and minute: at the start of each hour. `day` counts from Monday, 0; None: each day."""

    hour: int | None = None
    minute: int = 0
    day: int | None = None

    def __str__(self) -> str:
        if self.hour is None:
            return "hourly"
        return f"{'' if self.day is None else DAYS[self.day] + ' '}{self.hour:02}:{self.minute:02}"

    @property
    def calendar(self) -> str:
        """As `OnCalendar=` of a timer."""
        if self.hour is None:
            return "hourly"
        return f"{'' if self.day is None else DAYS[self.day] + ' '}*-*-* {self.hour:02}:{self.minute:02}:00"

    @property
    def cron(self) -> str:
        """The five fields of a line of cron."""
        hour = "*" if self.hour is None else str(self.hour)
        day = "*" if self.day is None else str((self.day + 1) % 7)
        return f"{self.minute} {hour} * * {day}"

    def next_after(self, now: datetime.datetime) -> datetime.datetime:
        """The next start after a local time."""
        if self.hour is None:
            return now.replace(minute=0, second=0, microsecond=0) + datetime.timedelta(hours=1)
        start = now.replace(hour=self.hour, minute=self.minute, second=0, microsecond=0)
        if self.day is not None:
            start += datetime.timedelta(days=(self.day - now.weekday()) % 7)
        if start <= now:
            start += datetime.timedelta(days=1 if self.day is None else 7)
        return start


def parse_times(text: str) -> Times:
    """The times of a SPEC. Raises UsageError, which shows what may be written."""
    words = text.strip()
    if words.lower() == "hourly":
        return Times()
    match = _SPEC.fullmatch(words)
    if match is None:
        raise UsageError(f"--at {text!r} is not a time{suggest(words, ['hourly'])}", _REMEDY)
    day, hour, minute = match[1], int(match[2]), int(match[3])
    if hour > 23 or minute > 59:
        raise UsageError(f"--at {text!r}: a day has no {match[2]}:{match[3]}", _REMEDY)
    return Times(hour, minute, None if day is None else _find_day(text, day))


def _find_day(text: str, day: str) -> int:
    word = day.capitalize()
    for number, names in enumerate(zip(DAYS, _NAMES, strict=True)):
        if word in names:
            return number
    raise UsageError(f"--at {text!r}: {day!r} is not a day{suggest(word, list(_NAMES))}", _REMEDY)
