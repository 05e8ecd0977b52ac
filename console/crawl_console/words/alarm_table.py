"""The table of alarms, and of the warnings and errors of a run that are not about single pages."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from crawl_console.crawl.source import LogLines
from crawl_console.format import Span, format_date_time, format_elapsed
from crawl_console.words.table import Column, Row, item_row
from crawl_engine.model.run import Alarm
from crawl_engine.store.db.filter import EventFilter, GlobFilter
from crawl_engine.store.tables.run.events import Event

ALARM_HISTORY = EventFilter(levels=GlobFilter(("WARNING", "ERROR")), kinds=GlobFilter((), ("page", "row")))
_NUMBER = re.compile(r"\d[\d.,:]*")
NO_ALARM = "✓ no alarms, and nothing in the history of this run"


class ShownAlarm(NamedTuple):
    """An alarm, or an event of the history."""

    state: Span
    since: float
    now: float
    text: Span

    @property
    def seconds(self) -> float:
        return self.now - self.since


ALARM_COLUMNS: Sequence[Column[ShownAlarm]] = (
    Column("STATE", 14, lambda shown: shown.state, lambda shown: shown.state[0], "whether it holds now"),
    Column(
        "SINCE", 6, lambda shown: (format_elapsed(shown.seconds), "dim"), lambda shown: shown.seconds,
        "how long ago it began", right=True,
    ),
    Column("ALARM", 0, lambda shown: shown.text, lambda shown: shown.text[0], "what is wrong"),
)  # fmt: skip


def _dated_span(shown: ShownAlarm) -> Span:
    age = format_elapsed(shown.seconds)
    return f"{format_date_time(shown.since)[5:16]}, {age}" if shown.since else age, "dim"


DATED_ALARM_COLUMNS = [replace(each, cell=_dated_span) if each.title == "SINCE" else each for each in ALARM_COLUMNS]
"""With the moment when it began, besides how long that is ago."""


def alarm_row(alarm: Alarm, now: float, columns: Sequence[Column[ShownAlarm]] = ALARM_COLUMNS) -> Row:
    state = ("✓ acknowledged", "dim") if alarm.acknowledged else ("! now", alarm.level)
    shown = ShownAlarm(state, alarm.since, now, (alarm.text, "dim" if alarm.acknowledged else alarm.level))
    return item_row(columns, alarm.key, shown, alarm)


def event_row(id_: int, event: Event, now: float, columns: Sequence[Column[ShownAlarm]] = ALARM_COLUMNS) -> Row:
    state = ("✗ error", "bad") if event.level == "ERROR" else ("· warning", "warn")
    return item_row(columns, id_, ShownAlarm(state, event.at, now, (event.text, "text")), event)


def without_current(history: LogLines, alarms: Iterable[Alarm]) -> LogLines:
    """The events that no current alarm tells; of those that say the same, with other numbers, the last one."""
    told = {_NUMBER.sub("#", alarm.text) for alarm in alarms}
    kept = []
    for line in reversed(history):
        shape = _NUMBER.sub("#", line[1].text)
        if shape not in told:
            told.add(shape)
            kept.append(line)
    return kept[::-1]
