"""One job, in tabs: payload, page, error, attempts, rows, results of steps, and a trial."""

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import orjson
from textual.app import ComposeResult

from crawl_console.crawl.source import AcceptedDefs, DataSource, PollResult
from crawl_console.format import Span, plural
from crawl_console.tui.screens.base import View
from crawl_console.tui.widgets.line_canvas import Canvas, Line
from crawl_console.tui.widgets.text_view import TextView
from crawl_console.words.job_lines import (
    attempt_lines,
    error_lines,
    link_lines,
    page_lines,
    payload_lines,
    result_lines,
    row_lines,
)
from crawl_engine.store.db.filter import ALL_JOBS
from crawl_engine.store.read.browse import JobDetail
from crawl_engine.urls import without_credentials

_TIMEOUT = 20.0
_MAX_ROWS = 200


def run_trial(data: Path, defs: Path, data_def: str, job: int) -> list[Span]:
    """Rows, links and rejected records as lines, or the error. Takes about a second: call it on a worker thread."""
    command = [sys.executable, "-m", "crawl_console", "try", data_def, "--job", str(job), "--json"]
    try:
        process = subprocess.run(
            [*command, "--defs", str(defs), "--data", str(data)],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [(f"no answer within {_TIMEOUT:g} s", "bad")]
    if process.returncode:
        return [(line, "bad") for line in process.stderr.decode("utf-8", "replace").splitlines()]
    try:
        return list(_trial_lines(orjson.loads(process.stdout), data_def))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return [(f"the output of `try` cannot be read: {error}", "bad")]


def _trial_lines(trial: dict[str, list[dict[str, object]]], data_def: str) -> Iterator[Span]:
    rows, links, rejected = trial["rows"], trial["links"], trial["rejected"]
    counts = f"{plural(len(rows), 'row')}, {plural(len(links), 'link')}, {len(rejected)} rejected"
    yield f"{data_def}: {counts}, nothing written", "strong"
    for reject in rejected[:_MAX_ROWS]:
        yield f"✗ {reject['field']}: {reject['reason']}  {reject['place']}", "bad"
    for number, row in enumerate(rows[:_MAX_ROWS], 1):
        yield f"row {number}", "accent"
        for name, value in row.items():
            yield f"  {name:<16} {value if isinstance(value, str) else orjson.dumps(value).decode()}", "text"
    for link in links[:_MAX_ROWS]:
        yield f"→ {link['group']}: {link['url']}", "dim"


TABS = ("Payload", "Page", "Error", "Attempts", "Links", "Rows", "Try")
_RESULTS = "Results"
"""The tab of a job with results of plugin steps."""


class JobTabs(Canvas):
    current = "Payload"
    tabs: Sequence[str] = TABS

    def paint(self, width: int, height: int) -> list[Line]:  # noqa: ARG002
        return [
            Line([
                (f"[{t}]" if t == self.current else f" {t} ", "tab" if t == self.current else "text") for t in self.tabs
            ])
        ]  # fmt: skip


class JobView(View):
    """Reads the job at each poll, its page once."""

    NAME = "jobs"
    SNAPSHOT_LIMIT = 0
    HINTS = (
        ("next_pane", "next tab"), ("retry", "retry"), ("url", "browser"), ("copy", "copy"), ("edit", "edit def"),
        ("try", "try"), ("back", "back"),
    )  # fmt: skip
    DEFAULT_CSS = "JobView { layout: vertical; } JobView JobTabs { height: 1; } JobView TextView { height: 1fr; }"

    def __init__(self, job: int, tab: str = "Payload") -> None:
        super().__init__()
        self.job = job
        self.tab = tab
        self.detail: JobDetail | None = None
        self.body: tuple[int, bytes | None] | None = None
        self.trial_lines: list[Span] = [("t tries the defs on disk on the stored page; writes nothing", "dim")]

    def compose(self) -> ComposeResult:
        self.job_tabs = JobTabs()
        self.pane = TextView()
        yield self.job_tabs
        yield self.pane

    def breadcrumb(self) -> str:
        return f"job {self.job}"

    @property
    def tabs(self) -> Sequence[str]:
        """The tabs. The tab of results is shown if the job has results or the tab is open."""
        detail = self.detail
        has_results = detail is not None and bool(detail.results or detail.unlisted_results)
        return (*TABS[:-1], _RESULTS, TABS[-1]) if has_results or self.tab == _RESULTS else TABS

    def read(self, source: DataSource, run: int) -> object:  # noqa: ARG002
        detail, loaded = source.job(self.job), self.body
        page = detail.page.id if detail is not None and detail.page is not None else None
        if page is None or (loaded is not None and page == loaded[0]):
            return detail, None
        return detail, (page, source.document_body(page))

    def show(self, poll: PollResult) -> None:
        if (data := self.take_data(poll)) is not None:
            self.detail, body = data
            self.body = body or self.body
        self._update_pane()

    def _update_pane(self) -> None:
        self.job_tabs.current, self.job_tabs.tabs = self.tab, self.tabs
        self.job_tabs.redraw()
        if self.detail is None:
            self.pane.heading = f"job {self.job}"
            self.pane.show(
                [("no such job" if self.last_poll and self.last_poll.requester is self else "reading…", "dim")]
            )
            return
        line = self.detail.line
        self.pane.heading = f"job {line.id} {line.state} {without_credentials(line.url)}"
        lines = {
            "Payload": payload_lines, "Page": self._page_lines, "Error": error_lines, "Attempts": attempt_lines,
            "Links": link_lines, "Rows": row_lines, _RESULTS: result_lines,
        }.get(self.tab)  # fmt: skip
        self.pane.show(list(lines(self.detail)) if lines else self.trial_lines)

    def _page_lines(self, detail: JobDetail) -> Iterable[Span]:
        page = detail.page
        if page is not None and (self.body is None or self.body[0] != page.id):
            return [("reading…", "dim")]
        return page_lines(page, self.body[1] if self.body is not None else None)

    # --- keys

    def action_next_pane(self) -> None:
        self.switch_tab(1)

    def action_previous_pane(self) -> None:
        self.switch_tab(-1)

    def switch_tab(self, step: int) -> None:
        tabs = self.tabs
        self.open_tab(tabs[(tabs.index(self.tab) + step) % len(tabs)])

    def open_tab(self, tab: str) -> None:
        self.tab, self.pane.first_line = tab, 0
        self._update_pane()

    def action_payload(self) -> None:
        self.open_tab("Payload")

    def action_retry(self) -> None:
        self.console_app.actions.retry([self.job], ALL_JOBS)

    def action_url(self) -> None:
        if self.detail is not None:
            self.console_app.desktop.open_in_browser(self.detail.line.target or self.detail.line.url)

    def action_copy(self) -> None:
        """Copy the URL; on other tabs than Payload the tab's text."""
        if self.detail is not None:
            url = without_credentials(self.detail.line.url)
            self.console_app.desktop.copy_text(url if self.tab == "Payload" else self.pane.text())

    def action_edit(self) -> None:
        """Edit the def that the error names, else the first file."""
        detail = self.detail
        text = " ".join([*(event.text for _, event in detail.events), detail.line.reason or ""]) if detail else ""
        self.console_app.desktop.edit_mentioned_file(text)

    def action_try(self) -> None:
        """Try the defs on disk on the stored page."""
        if self.detail is None or self.detail.page is None:
            self.console_app.show_toast("try: no stored page", "warning")
            return
        group, options = self.detail.line.group, self.console_app.options
        self.trial_lines = [("trying…", "accent")]
        self.open_tab("Try")

        def work() -> None:
            lines: list[Span] = []
            for name in _data_defs_of_group(self.console_app.accepted_defs, group):
                lines += [*run_trial(options.data, options.defs, name, self.job), ("", "")]
            lines = lines or [(f"the defs have no dataDef for group {group}", "warn")]
            self.console_app.call_in_app(self._show_trial, lines)

        self.console_app.run_in_thread(work)

    def _show_trial(self, lines: list[Span]) -> None:
        self.trial_lines = lines
        self._update_pane()


def _data_defs_of_group(accepted: AcceptedDefs | None, group: str) -> list[str]:
    task_group = accepted.definitions.task_group(group) if accepted is not None else None
    return list(dict.fromkeys(task.data_def for task in task_group.tasks)) if task_group else []
