"""The table of alarms, and of the warnings and errors of a run that are not about single pages."""

import re
from collections.abc import Iterable

from crawl_console.crawl.source import LogLines
from crawl_console.format import format_elapsed
from crawl_console.words.table import Column, Row
from crawl_engine.model.run import Alarm
from crawl_engine.store.db.filter import EventFilter, GlobFilter
from crawl_engine.store.tables.run.events import Event

ALARM_HISTORY = EventFilter(levels=GlobFilter(("WARNING", "ERROR")), kinds=GlobFilter((), ("page", "row")))
ALARM_COLUMNS = (Column("STATE", 14), Column("SINCE", 6, right=True), Column("ALARM", 0))
_NUMBER = re.compile(r"\d[\d.,:]*")
NO_ALARM = "✓ no alarms, and nothing in the history of this run"


def alarm_row(alarm: Alarm, seconds: float) -> Row:
    state = ("✓ acknowledged", "dim") if alarm.acknowledged else ("! now", alarm.level)
    return Row(
        alarm.key,
        (state, (format_elapsed(seconds), "dim"), (alarm.text, "dim" if alarm.acknowledged else alarm.level)),
        (state[0], seconds, alarm.text),
        alarm,
    )


def event_row(id_: int, event: Event, now: float) -> Row:
    state = ("✗ error", "bad") if event.level == "ERROR" else ("· warning", "warn")
    return Row(
        id_,
        (state, (format_elapsed(now - event.at), "dim"), (event.text, "text")),
        (state[0], now - event.at, event.text),
        event,
    )


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
