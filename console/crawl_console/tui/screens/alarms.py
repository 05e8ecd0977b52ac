"""The current alarms, and the run's warnings and errors except those of single pages."""

import time

from textual.app import ComposeResult

from crawl_console.crawl.source import DataSource, LogLines, PollResult
from crawl_console.format import plural
from crawl_console.tui.screens.base import View
from crawl_console.tui.widgets.line_table import LineTable
from crawl_console.words.alarm_table import (
    ALARM_COLUMNS,
    ALARM_HISTORY,
    NO_ALARM,
    alarm_row,
    event_row,
    without_current,
)
from crawl_engine.model.run import Alarm
from crawl_engine.store.tables.run.events import Event

_MAX_HISTORY = 200


class AlarmTable(LineTable):
    """Current alarms first, then the history, the newest first."""

    COLUMNS = ALARM_COLUMNS
    EMPTY = NO_ALARM


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
        return source.last_events(run, ALARM_HISTORY, _MAX_HISTORY)

    def show(self, poll: PollResult) -> None:
        self._history = self.take_data(poll) or self._history
        book, now = self.console_app.alarm_book, time.time()
        current = [alarm_row(alarm, now) for alarm in book.alarms]
        history = without_current(self._history, book.alarms)
        self.table.show_filtered([*current, *(event_row(id_, event, now) for id_, event in reversed(history))])
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
