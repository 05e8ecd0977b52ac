"""Screen 5, Defs: files with their problems, accepted dataDefs, results of steps, a live preview."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from textual.actions import SkipAction
from textual.app import ComposeResult

from crawl_console.crawl.source import AcceptedDefs, PollResult, ViewQuery
from crawl_console.format import Span, format_count, format_size, format_time
from crawl_console.tui.screens.base import View
from crawl_console.tui.state.live_preview import (
    LivePreview,
    SavedPreview,
    defs_stamp,
    list_def_files,
    preview_saved_defs,
)
from crawl_console.tui.widgets.line_table import LineTable
from crawl_console.tui.widgets.text_view import TextView
from crawl_console.words.filters import outcome_filter
from crawl_console.words.job_lines import OUTCOME_ROLES
from crawl_console.words.table import Column, Row, item_row
from crawl_engine.defs.shown_text import shown_lines

_MAX_LINES = 2_000
_COMPARING: Span = ("comparing stored pages…", "accent")
_DAY = 86_400
_CHECK_INTERVAL = 0.1
"""Seconds between two checks of the files while a preview is open."""


class DefFiles(Struct, frozen=True):
    """A query's result: name, path, size and modification time of each file."""

    files: tuple[tuple[str, Path, int, float], ...]


class _ShownFile(NamedTuple):
    name: str
    size: int
    changed: float
    problems: int


def _changed_span(file: _ShownFile) -> Span:
    today = time.time() - file.changed < _DAY
    return format_time(file.changed) if today else time.strftime("%d %b %y", time.localtime(file.changed))[:8], "dim"


class DefFilesTable(LineTable):
    COLUMNS: Sequence[Column[_ShownFile]] = (
        Column("FILE", 0, lambda file: (file.name, "text"), lambda file: file.name, "its name"),
        Column(
            "SIZE", 7, lambda file: (format_size(file.size), "dim"), lambda file: file.size, "its size", right=True
        ),
        Column("CHANGED", 8, _changed_span, lambda file: file.changed, "when it was saved last"),
        Column(
            "PROBLEMS", 10, lambda file: (f"✗ {file.problems}", "bad") if file.problems else ("✓ none", "good"),
            lambda file: file.problems, "that the check found",
        ),
    )  # fmt: skip
    EMPTY = "no files: --defs sets their directory"


class _ShownDataDef(NamedTuple):
    name: str
    groups: str
    rows: int
    rejected: int


class DataDefsTable(LineTable):
    COLUMNS: Sequence[Column[_ShownDataDef]] = (
        Column("DATADEF", 0, lambda shown: (shown.name, "strong"), lambda shown: shown.name, "its name"),
        Column(
            "GROUPS", 24, lambda shown: (shown.groups or "no group", "text"), lambda shown: shown.groups, "that use it"
        ),
        Column(
            "ROWS", 7, lambda shown: (format_count(shown.rows), "text"), lambda shown: shown.rows,
            "that it gave in this run", right=True,
        ),
        Column(
            "REJECTED", 8, lambda shown: (format_count(shown.rejected), "warn" if shown.rejected else "dim"),
            lambda shown: shown.rejected, "records that a rule of the defs rejected", right=True,
        ),
    )  # fmt: skip
    EMPTY = "no dataDefs yet"


class DefsView(View):
    """Files and dataDefs; below them problems, a file's text, or a preview."""

    NAME = "defs"
    SNAPSHOT_LIMIT = 0
    HINTS = (
        ("open", "text, or try"), ("edit", "edit"), ("try", "try"), ("reload", "reload"), ("next_pane", "panes"),
        ("zoom", "zoom"),
    )  # fmt: skip
    DEFAULT_CSS = """
    DefsView { layout: vertical; }
    DefsView DefFilesTable, DefsView DataDefsTable { height: auto; max-height: 34%; min-height: 2; }
    DefsView ResultTable { height: auto; max-height: 25%; min-height: 2; }
    DefsView TextView { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.def_files: DefFiles | None = None
        self.text: Sequence[Span] | None = None
        self.live_preview: LivePreview | None = None
        self._last_stamp: tuple[tuple[str, int, int], ...] = ()
        self._preview_running = False
        self._zoomed = False
        self._compared_hash = ""
        """Of the saved defs for which the last comparison began."""
        self._comparing = False
        self._saved_preview: SavedPreview | None = None

    def compose(self) -> ComposeResult:
        self.files, self.data_defs, self.pane = DefFilesTable(), DataDefsTable(), TextView("problems")
        self.results = ResultTable()
        self.results.display = False
        yield from (self.files, self.data_defs, self.results, self.pane)

    def on_mount(self) -> None:
        self.set_interval(_CHECK_INTERVAL, self._check_files)

    def breadcrumb(self) -> str:
        accepted = self.console_app.accepted_defs
        return f"Defs v{accepted.version}" if accepted else "Defs"

    @property
    def shows_plan(self) -> bool:
        poll, preview = self.last_poll, self._saved_preview
        saved = poll.waiting_defs if poll is not None else None
        if saved is None or preview is None or self._comparing or self.text is not None or not self.pane.display:
            return False
        return bool(preview.hash == saved["hash"])

    def view_query(self) -> ViewQuery | None:
        defs = self.console_app.options.defs
        return lambda source, snapshot: DefFiles(tuple(_def_file_infos(defs)))  # noqa: ARG005

    def show(self, poll: PollResult) -> None:
        self.last_poll = poll
        if poll.requester is self and isinstance(poll.view_data, DefFiles):
            self.def_files = poll.view_data
            self._update_panes(poll)

    def _update_panes(self, poll: PollResult) -> None:
        assert self.def_files is not None
        problems = poll.snapshot.defs_problems
        self.files.show([_file_row(file, problems) for file in self.def_files.files])
        accepted = poll.accepted_defs
        self.data_defs.show(_data_def_rows(accepted, poll) if accepted else [])
        most = max(8, self.size.height // 3)
        self.files.styles.height = min(len(self.files.rows), most) + 1
        self.data_defs.styles.height = min(len(self.data_defs.rows), most) + 1
        if self.wanted is not None and accepted is not None:
            self._try_wanted()
        groups = [group.name for group in accepted.definitions.task_groups] if accepted else []
        self.results.show(result_rows(poll.snapshot.results, groups))
        self.results.styles.height = min(len(self.results.rows), 8) + 1
        if not self._zoomed:
            self.results.display = bool(self.results.rows)
        saved = poll.waiting_defs
        if saved is not None and saved["hash"] != self._compared_hash and not self._comparing:
            self._compare_saved(saved["hash"])
        if self.text is None:
            if saved is not None:
                keys = "" if self.console_app.options.read_only else ": y publishes"
                self.pane.heading = f"saved {format_time(saved['at'])}, not published{keys}"
                preview = self._saved_preview
                self.pane.show(preview.lines if preview and not self._comparing else [_COMPARING])
            else:
                self.pane.heading = f"problems {len(problems)}" if problems else "problems"
                self.pane.show([(_problem_text(p), "bad") for p in problems] or [_no_problems_span(accepted)])
        self.console_app.navigation.refresh_breadcrumbs()

    def _try_wanted(self) -> None:
        """Preview the dataDef of an alarm, and how its field is filled on the pages."""
        (data_def, field), self.wanted = self.wanted, None
        if not self.data_defs.select(data_def):
            self.console_app.show_toast(f"{data_def} is not among the dataDefs", "warning")
        else:
            self.screen.set_focus(self.data_defs)
            self.action_try(field)

    def _compare_saved(self, saved_hash: str) -> None:
        """Compare stored pages with the saved defs, on a thread; one comparison at a time."""
        app, options = self.console_app, self.console_app.options
        self._compared_hash, self._comparing = saved_hash, True

        def show(preview: SavedPreview) -> None:
            self._comparing, self._saved_preview = False, preview
            if preview.was_busy:
                self._compared_hash = ""  # the next poll tries again
            app.update_screen()

        app.run_in_thread(
            lambda: app.call_in_app(show, preview_saved_defs(options.data, options.defs, options.settings))
        )

    # --- keys

    def on_line_table_row_opened(self, event: LineTable.RowOpened) -> None:
        """Show a file's text, a preview of the dataDef, or the jobs with the worst outcome of a step."""
        event.stop()
        if event.table is self.results:
            group, outcome = event.row.subject
            self.console_app.navigation.push_jobs(outcome_filter(group, outcome))
            return
        if event.table is self.files:
            self._show_file(event.row.subject[1], event.row.subject[0])
        else:
            self.action_try()

    def on_line_table_row_highlighted(self, event: LineTable.RowHighlighted) -> None:
        """An open text or preview follows the cursor of its table."""
        event.stop()
        row = event.table.row
        if self.text is None or row is None:
            return
        if event.table is self.data_defs and self.live_preview is not None and row.subject:
            self.action_try()
        elif event.table is self.files and self.live_preview is None:
            self._show_file(row.subject[1], row.subject[0])

    def _show_file(self, path: Path, name: str) -> None:
        try:
            lines = shown_lines(path.read_text("utf-8", "replace"))[:_MAX_LINES]
        except OSError as error:
            lines = [str(error)]
        problems = self.last_poll.snapshot.defs_problems if self.last_poll else []
        bad = {p["line"]: p["message"] for p in problems if Path(p["file"]).name == path.name}
        self.text = [
            span
            for number, line in enumerate(lines, 1)
            for span in (
                (f"{number:>4}  {line}", "bad" if number in bad else "text"),
                *([(f"      ^ {bad[number]}", "warn")] if number in bad else []),
            )
        ]
        self.live_preview, self.pane.heading, self.pane.wrap, self.pane.first_line = None, name, False, 0
        self.pane.show(self.text)

    def action_back(self) -> None:
        """Close the text or preview; if none is open, the app goes back."""
        if self.text is not None:
            self.text, self.live_preview, self.pane.wrap = None, None, True
            if self.last_poll is not None:
                self._update_panes(self.last_poll)
        else:
            raise SkipAction

    def action_edit(self) -> None:
        """Edit the chosen dataDef at its definition, or the chosen file at its first problem."""
        accepted, chosen = self.console_app.accepted_defs, self.data_defs.row
        if self.screen.focused is self.data_defs and accepted is not None and chosen is not None:
            data_def = accepted.definitions.data_def(str(chosen.key))
            if data_def is not None and data_def.place.file:
                self.console_app.desktop.edit_file((Path(data_def.place.file), data_def.place.line))
                return
        row = self.files.row
        if row is None:
            self.console_app.desktop.edit_file(None)
            return
        name, path = row.subject[0], row.subject[1]
        problems = self.last_poll.snapshot.defs_problems if self.last_poll else []
        line = next((p["line"] for p in problems if Path(p["file"]).name == Path(name).name), 1)
        self.console_app.desktop.edit_file((path, line))

    def action_try(self, field: str | None = None) -> None:
        """Preview the dataDef on the newest stored pages of its groups, again at each save."""
        row = self.data_defs.row
        if row is None:
            self.console_app.show_toast("try: select a dataDef (tab)", "warning")
            return
        if not row.subject:
            self.console_app.show_toast(f"try: no group uses {row.key}", "warning")
            return
        options = self.console_app.options
        self.live_preview = LivePreview(options.data, options.defs, str(row.key), options.settings, field)
        self.text, self.pane.heading = (
            [("reading stored pages…", "accent")],
            f"preview of {row.key}, updated at each save",
        )
        self.pane.first_line = 0
        self.pane.show(self.text)
        self._last_stamp = ()
        self._check_files()

    def _check_files(self) -> None:
        """Evaluate the preview again if a file was saved; one evaluation at a time."""
        preview = self.live_preview
        if preview is None or self._preview_running or not self.display:
            return
        stamp = defs_stamp(self.console_app.options.defs)
        if stamp == self._last_stamp:
            return
        self._last_stamp, self._preview_running = stamp, True
        self.console_app.run_in_thread(
            lambda: self.console_app.call_in_app(self._show_preview, preview, preview.evaluate())
        )

    def _show_preview(self, preview: LivePreview, lines: Sequence[Span]) -> None:
        self._preview_running = False
        if preview is self.live_preview:
            self.text = lines
            self.pane.show(lines)

    def action_zoom(self) -> None:
        self._zoomed = not self._zoomed
        focused = self.screen.focused
        for pane in self.panes() if self._zoomed else (self.files, self.data_defs, self.results, self.pane):
            pane.display = pane is focused if self._zoomed else pane is not self.results or bool(self.results.rows)


def _def_file_infos(defs: Path) -> list[tuple[str, Path, int, float]]:
    return [
        (str(path.relative_to(defs) if path != defs else path.name), path, stat.st_size, stat.st_mtime)
        for path, stat in list_def_files(defs)
    ]


def _file_row(file: tuple[str, Path, int, float], problems: list[dict[str, Any]]) -> Row:
    name, path, size, changed = file
    count = sum(Path(p["file"]).name == path.name for p in problems)
    return item_row(DefFilesTable.COLUMNS, name, _ShownFile(name, size, changed, count), (name, path))


def _data_def_rows(accepted: AcceptedDefs, poll: PollResult) -> list[Row]:
    defs, rows = accepted.definitions, []
    for data_def in defs.data_defs:
        groups = [g.name for g in defs.task_groups if any(t.data_def == data_def.name for t in g.tasks)]
        extracted = poll.snapshot.rows.get(data_def.name, 0)
        rejected = poll.snapshot.rejected.get(data_def.name, 0)
        shown = _ShownDataDef(data_def.name, ", ".join(groups), extracted, rejected)
        rows.append(item_row(DataDefsTable.COLUMNS, data_def.name, shown, groups))
    return rows


def _problem_text(problem: dict[str, Any]) -> str:
    return f"{problem['file']}:{problem['line']}:{problem['col']}: {problem['code']} {problem['message']}"


def _no_problems_span(accepted: AcceptedDefs | None) -> Span:
    if accepted is None:
        return ("no defs accepted yet", "dim")
    return (f"✓ none: v{accepted.version} is in use since {format_time(accepted.at)}", "good")


class _ShownResult(NamedTuple):
    task: str
    step: str
    counts: Mapping[str, int]
    """By outcome."""


def _outcome_column(title: str, width: int, outcome: str) -> Column[_ShownResult]:
    def cell(shown: _ShownResult) -> Span:
        count = shown.counts[outcome]
        return format_count(count), OUTCOME_ROLES[outcome] if count else "dim"

    return Column(title, width, cell, lambda shown: shown.counts[outcome], f"results: {outcome}", right=True)


class ResultTable(LineTable):
    """The counts of a run by task, step and outcome. The subject of a row: its group, and its worst outcome."""

    COLUMNS: Sequence[Column[_ShownResult]] = (
        Column("TASK", 0, lambda shown: (shown.task, "text"), lambda shown: shown.task, "its name"),
        Column("STEP", 16, lambda shown: (shown.step, "strong"), lambda shown: shown.step, "its name"),
        _outcome_column("OK", 7, "ok"), _outcome_column("WARNINGS", 8, "warning"),
        _outcome_column("ERRORS", 7, "error"), _outcome_column("NOT APPL.", 9, "not_applicable"),
    )  # fmt: skip
    EMPTY = "no results"


def result_rows(results: Mapping[str, Mapping[str, Mapping[str, int]]], groups: Iterable[str]) -> list[Row]:
    """The rows of a snapshot's results. `groups`: the names of the groups; one may hold a slash."""
    rows = []
    for task, steps in results.items():
        group = next((group for group in groups if task.startswith(f"{group}/")), task.partition("/")[0])
        rows += [_result_row(group, _ShownResult(task, step, counts)) for step, counts in steps.items()]
    return rows


def _result_row(group: str, shown: _ShownResult) -> Row:
    worst = next((name for name in ("error", "warning", "ok", "not_applicable") if shown.counts[name]), "ok")
    return item_row(ResultTable.COLUMNS, f"{shown.task} {shown.step}", shown, (group, worst))
