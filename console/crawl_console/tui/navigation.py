"""View stack: push, pop, switch. Tells the poller what the top view needs."""

from collections.abc import Iterable

from textual.containers import Container
from textual.widget import Widget

from crawl_console.tui.bindings import SUPERVISOR_KEYS, changes_run, key_label
from crawl_console.tui.host import AppHost
from crawl_console.tui.screens import create_view
from crawl_console.tui.screens.base import View
from crawl_console.tui.state.poller import Poller
from crawl_console.tui.widgets.bars import HintBar, Tabs
from crawl_console.words.filters import host_filter, state_filter
from crawl_console.words.health_line import HOST_CODES
from crawl_engine.errors import UsageError
from crawl_engine.model.run import Alarm
from crawl_engine.store.db.filter import JobFilter
from crawl_engine.store.tables.run.events import Event


class Navigation:
    """Mounts views into `body`; the top of the stack is visible."""

    def __init__(self, app: AppHost, *, poller: Poller, body: Container, tabs: Tabs, hints: HintBar) -> None:
        self._app = app
        self._poller = poller
        self._body = body
        self._tabs = tabs
        self._hints = hints
        self.views: dict[str, View] = {}
        """The screens visited so far, by name; they stay mounted."""
        self.view_stack: list[View] = []
        self._last_trouble = ""
        """The key of the alarm that was gone to last."""

    @property
    def depth(self) -> int:
        return len(self.view_stack)

    @property
    def shows_plan(self) -> bool:
        return self.top is not None and self.top.shows_plan

    @property
    def typed_filter(self) -> str:
        return self.top.typed_filter if self.top is not None else ""

    @property
    def top(self) -> View | None:
        """The visible view."""
        return self.view_stack[-1] if self.view_stack else None

    def switch_to(self, name: str) -> None:
        if name not in self.views:
            try:
                self.views[name] = create_view(name, self._app.log_buffer)
            except UsageError as error:  # of an installed package
                self._app.show_toast(str(error), "error")
                return
        self._set_view_stack([self.views[name]])

    def push_view(self, view: View) -> None:
        self._set_view_stack([*self.view_stack, view])

    def push_jobs(self, job_filter: JobFilter) -> None:
        from crawl_console.tui.screens.jobs import JobsView

        self.push_view(JobsView(job_filter))

    def push_failed(self, job_filter: JobFilter) -> None:
        from crawl_console.tui.screens.jobs import JobsView

        self.push_view(JobsView(job_filter, name="failed"))

    def push_job(self, job: int, tab: str) -> None:
        from crawl_console.tui.screens.job import JobView

        self.push_view(JobView(job, tab))

    def push_event_job(self, event: Event) -> None:
        if event.job is None:
            self._app.show_toast("this line names no job")
        else:
            self.push_job(event.job, "Error" if event.level == "ERROR" else "Attempts")

    def push_host_errors(self, host: str) -> None:
        """Show the last errors of a host (`name:port`)."""
        from crawl_console.tui.screens.host_errors import HostErrorsView

        self.push_view(HostErrorsView(host))

    def push_alarms(self) -> None:
        from crawl_console.tui.screens.alarms import AlarmsView

        if not isinstance(self.top, AlarmsView):
            self.push_view(AlarmsView())

    def go_to_next_trouble(self) -> None:
        """Go to the cause of the next alarm that is not acknowledged, the worst first."""
        alarms = self._app.alarm_book.open
        if not alarms:
            self._app.show_toast("no trouble now; A lists what there was")
            return
        keys = [alarm.key for alarm in alarms]
        place = (keys.index(self._last_trouble) + 1) % len(keys) if self._last_trouble in keys else 0
        self._last_trouble = keys[place]
        self._app.show_toast(f"{place + 1} of {len(alarms)}: {alarms[place].text}")
        self.open_cause(alarms[place])

    def open_cause(self, alarm: Alarm) -> None:
        """Show what an alarm is about: a host, the pages of a field, a node, the defs, or jobs."""
        if alarm.code in ("repeated-pages", "queue-grows"):
            self.push_jobs(host_filter(alarm.host) if alarm.host else state_filter("ready"))
        elif alarm.data_def is not None:
            self._show("defs", (alarm.data_def, alarm.field))
        elif alarm.code in ("defs-rejected", "defs-saved"):
            self.switch_to("defs")
        elif alarm.host is not None or alarm.code in HOST_CODES:
            self._show("hosts", alarm.host)
        elif alarm.code in ("node-lost", "appender-behind", "supervisor-lost"):
            rows = {"appender-behind": "appender", "supervisor-lost": "supervisor"}
            self._show("nodes", rows.get(alarm.code, alarm.subject))
        else:
            self.push_alarms()

    def _show(self, name: str, subject: object) -> None:
        """Switch to a screen and select a subject there: a row, or a field of a dataDef."""
        self.switch_to(name)
        self.views[name].wanted = subject
        self.refresh_query()

    def choose_columns(self, table: Widget) -> None:
        from crawl_console.tui.screens.dialogs import ColumnsPanel
        from crawl_console.tui.widgets.line_table import LineTable

        assert isinstance(table, LineTable)
        self._app.open_dialog(ColumnsPanel(table), lambda _: None)

    def show_summary(self) -> None:
        """Show what the run gave so far, on the Nodes screen."""
        from crawl_console.tui.screens.nodes import NodesView

        self.switch_to("nodes")
        view = self.views["nodes"]
        assert isinstance(view, NodesView)
        view.show_summary()

    def pop_view(self) -> None:
        if len(self.view_stack) > 1:
            self._set_view_stack(self.view_stack[:-1])

    def _set_view_stack(self, stack: list[View]) -> None:
        removed = [view for view in self.view_stack if view not in stack]
        for view in self.view_stack:
            view.display = False
        self.view_stack = stack
        top = stack[-1]
        if not top.is_attached:
            self._body.mount(top)
        for view in removed:
            if view not in self.views.values():
                view.remove()
        top.display = True
        self._app.prompt.close()
        self._tabs.current = stack[0].NAME
        self._app.call_after_refresh(self._activate_view, top)

    def _activate_view(self, view: View) -> None:
        if self.top is not view or not view.is_attached:
            return
        if not all(each.is_mounted for each in self.view_stack):  # on a busy machine, one may not be composed yet
            self._app.call_after_refresh(self._activate_view, view)
            return
        view.activate()
        self.refresh_query()
        self.refresh_breadcrumbs()
        self._app.update_screen()

    def refresh_breadcrumbs(self) -> None:
        """Take breadcrumbs and key hints from the views on the stack."""
        self._tabs.breadcrumbs = " > ".join(view.breadcrumb() for view in self.view_stack)
        poll, hints = self._app.last_poll, self.view_stack[-1].HINTS
        if poll is not None and poll.supervisor_pid is None:
            start = [("restart", "start")] if self._app.options.start_supervisor is not None else []
            hints = [*start, *((key_id, text) for key_id, text in hints if key_id not in SUPERVISOR_KEYS)]
        self._hints.hints = self._label_keys(hints)
        leave = [("back", "crawls")] if self._app.options.has_list and self.depth == 1 else []
        self._hints.general_hints = self._label_keys((*leave, ("help", "keys"), ("quit", "quit")))
        self._tabs.redraw()
        self._hints.redraw()

    def _label_keys(self, hints: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        options = self._app.options
        return [
            (label, text)
            for key_id, text in hints
            if (label := key_label(key_id, options.config.keys, ascii_only=options.ascii_only))
            and not (options.read_only and changes_run(key_id))
        ]

    def refresh_query(self, *, at_once: bool = True) -> None:
        view = self.view_stack[-1]
        log_query = self._app.log_buffer.read_new if view.READS_LOG else None
        self._poller.set_query(view, view.view_query(), log_query, view.SNAPSHOT_LIMIT, at_once=at_once)
