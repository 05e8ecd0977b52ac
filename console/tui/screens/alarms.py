"""The current alarms, and the run's warnings and errors except those of single pages."""

import time

from textual.app import ComposeResult

from console.crawl.source import DataSource, LogLines, PollResult
from console.format import format_elapsed, plural
from console.tui.screens.base import View
from console.tui.widgets.columns import Column
from console.tui.widgets.line_table import LineTable, Row
from engine.model.run import Alarm
from engine.store.db.filter import EventFilter, GlobFilter
from engine.store.tables.run.events import Event

_HISTORY_FILTER = EventFilter(levels=GlobFilter(("WARNING", "ERROR")), kinds=GlobFilter((), ("page", "row")))
_MAX_HISTORY = 200


class AlarmTable(LineTable):
    """Current alarms first, then the history, the newest first."""

    COLUMNS = (Column("STATE", 14), Column("SINCE", 6, right=True), Column("ALARM", 0))
    EMPTY = "✓ no alarms, and nothing in the history of this run"


class AlarmsView(View):
    """`a` acknowledges the alarm under the cursor: it is quiet until its cause ends."""

    NAME = "nodes"
    SNAPSHOT_LIMIT = 200
    READ_INTERVAL = 2.0
    HINTS = (
        ("open", "its cause"),
        ("acknowledge", "acknowledge"),
        ("filter", "filter"),
        ("copy", "copy"),
        ("back", "back"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._history: LogLines = []

    def compose(self) -> ComposeResult:
        self.table = AlarmTable()
        yield self.table

    def breadcrumb(self) -> str:
        return plural(len(self.console_app.alarm_book.alarms), "alarm")

    def read(self, source: DataSource, run: int) -> LogLines:
        return source.last_events(run, _HISTORY_FILTER, _MAX_HISTORY)

    def show(self, poll: PollResult) -> None:
        self._history = self.take_data(poll) or self._history
        book, now = self.console_app.alarm_book, time.time()
        current = [_alarm_row(alarm, now - alarm.since) for alarm in book.alarms]
        self.table.show_filtered([*current, *(_event_row(id_, event, now) for id_, event in reversed(self._history))])
        self.console_app.navigation.refresh_breadcrumbs()

    def action_acknowledge(self) -> None:
        """Acknowledge the chosen alarms; if all are acknowledged already, make them loud again."""
        chosen = [row.subject for row in self.table.selected_rows() if isinstance(row.subject, Alarm)]
        if not chosen:
            self.console_app.show_toast("a: only current alarms can be acknowledged", "warning")
            return
        self.table.marks.clear()
        self.console_app.acknowledge_alarms(chosen)

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        event.stop()
        if isinstance(event.row.subject, Event):
            self.console_app.navigation.push_event_job(event.row.subject)
        elif isinstance(event.row.subject, Alarm):
            self.console_app.navigation.open_cause(event.row.subject)


def _alarm_row(alarm: Alarm, seconds: float) -> Row:
    state = ("✓ acknowledged", "dim") if alarm.acknowledged else ("! now", alarm.level)
    return Row(
        alarm.key,
        (state, (format_elapsed(seconds), "dim"), (alarm.text, "dim" if alarm.acknowledged else alarm.level)),
        (state[0], seconds, alarm.text),
        alarm,
    )


def _event_row(id_: int, event: Event, now: float) -> Row:
    state = ("✗ error", "bad") if event.level == "ERROR" else ("· warning", "warn")
    return Row(
        id_,
        (state, (format_elapsed(now - event.at), "dim"), (event.text, "text")),
        (state[0], now - event.at, event.text),
        event,
    )
