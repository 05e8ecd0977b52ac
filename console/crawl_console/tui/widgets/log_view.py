"""Log pane: follows new lines or stays where the operator reads; search, level, filter, wrap."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from msgspec.structs import replace
from textual import events
from textual.actions import SkipAction

from crawl_console.filter_syntax import SearchPattern
from crawl_console.format import Span, format_latency, format_time, plural, shorten_line, shorten_name
from crawl_console.sanitize import clean
from crawl_console.tui.state.log_buffer import (
    LEVELS,
    MAX_LINES,
    LogBuffer,
    LogFilter,
    compile_pattern,
)
from crawl_console.tui.widgets.line_canvas import Line, fit
from crawl_console.tui.widgets.scroll_pane import ScrollPane
from crawl_console.words.job_lines import LEVEL_ROLES
from crawl_console.words.log_folding import FoldedLine, FoldedLines
from crawl_engine.store.tables.run.events import Event


def highlight(text: str, role: str, pattern: SearchPattern | None) -> list[Span]:
    """The text, with what a search finds in it marked."""
    if pattern is None:
        return [(text, role)]
    spans: list[Span] = []
    end = 0
    for match in pattern.finditer(text):
        if match.end() > match.start():
            spans += [(text[end : match.start()], role), (match.group(), "match")]
            end = match.end()
    return [*spans, (text[end:], role)]


_LEVEL_LABELS = {"INFO": "INFO", "WARNING": "WARN", "ERROR": "ERROR"}
_HEAD_WIDTH, _MIN_PATH, _MIN_REASON = 22, 8, 16


class LogPane(ScrollPane):
    """Shows the lines of a log buffer that pass a filter. Moving up ends following."""

    def __init__(self, log_buffer: LogBuffer, **named: Any) -> None:
        super().__init__(**named)
        self.log_buffer = log_buffer
        self.log_filter = LogFilter()
        self.search_pattern: SearchPattern | None = None
        self.following = True
        self.wrap = False
        self._folded = FoldedLines()
        self.folds = True
        """Whether pages that went well are counted by host, and lines that repeat the one before are folded."""
        self._last_id = 0
        self._run = 0
        self._cursor = self._bottom_index = -1
        self._top_index: int | None = None
        """The line at the top of the pane, while the pane is not placed by its bottom line."""
        self._first_visible = 0
        self._row_indexes: list[int] = []
        """Which line each row of the pane belongs to."""
        self._last_seen_id = 0
        self.failed_count = 0
        """Failed pages of the run."""

    # --- lines

    def pull_lines(self) -> None:
        """Show the lines that came since the last call."""
        if self._run != self.log_buffer.run or self._last_id > self.log_buffer.last_id:
            self._run, self._last_id = self.log_buffer.run, 0
            self._folded.clear()
        new_lines = [line for line in self.log_buffer.lines_after(self._last_id) if self.log_filter.accepts(line[1])]
        self._last_id = self.log_buffer.last_id
        before = [] if self.following else list(self._lines)
        self._folded.extend(new_lines, fold=self.folds, fold_pages=self._folds_pages)
        self._folded.drop_first(max(0, len(self._lines) - MAX_LINES))
        if self.following:
            self._folded.sort()
            self._cursor = self._bottom_index = len(self._lines) - 1
            self._top_index, self._last_seen_id = None, self._last_id
        elif before and before != self._lines[: len(before)]:
            self._keep_places(before)
        self.redraw()

    def _keep_places(self, before: Sequence[FoldedLine]) -> None:
        """Some lines have left the list: cursor and visible lines stay on theirs, or on the one before it."""
        places = {line: place for place, line in enumerate(self._lines)}

        def moved(index: int) -> int:
            return next((places[line] for line in reversed(before[: index + 1]) if line in places), 0)

        self._cursor, self._bottom_index = moved(self._cursor), moved(self._bottom_index)
        if self._top_index is not None:
            self._top_index = moved(self._top_index)

    def set_filter(self, log_filter: LogFilter) -> None:
        """Show the lines that pass another filter, and follow."""
        if log_filter != self.log_filter:
            self.log_filter = log_filter
            self._read_again()

    def _read_again(self) -> None:
        """Show the lines of the buffer from its start, and follow."""
        self._folded.clear()
        self._last_id, self.following = 0, True
        self.pull_lines()

    @property
    def _folds_pages(self) -> bool:
        """A search looks at every line."""
        return self.folds and self.search_pattern is None and self.log_filter.pattern is None

    @property
    def page_lines(self) -> int:
        return max(1, self.size.height - 1 - bool(self._folded.pages))

    @property
    def _lines(self) -> list[FoldedLine]:
        return self._folded.lines

    @property
    def event(self) -> Event | None:
        return self._lines[self._cursor].event if 0 <= self._cursor < len(self._lines) else None

    def matching_events(self) -> list[Event]:
        return [line.event for line in self._lines]

    # --- drawing

    def title(self) -> str:
        sources = ", ".join(sorted(self.log_filter.sources))
        name = f"trouble{sources and ' of '}{sources}" if self._folds_pages else f"log {sources or 'all'}"
        level = "" if self.log_filter.level == "INFO" else f" · {self.log_filter.level}+"
        line_filter = (
            f" · &{'!' if self.log_filter.negated else ''}{self.log_filter.pattern.pattern}"
            if self.log_filter.pattern
            else ""
        )
        search = f" · /{self.search_pattern.pattern}" if self.search_pattern else ""
        new = sum(line.id > self._last_seen_id for line in self._lines)
        state = "follow" if self.following else f"▼ {new} new" if new else "stopped"
        return clean(f"{name} · {state}{level}{line_filter}{search}")

    def paint(self, width: int, height: int) -> list[Line]:  # noqa: ARG002
        fold = "=: fold" if not self.folds else "=: all" if self._folds_pages else ""
        keys = "  / search  & filter  L level  f follow  w wrap" if self.has_focus else ""
        rule = [self.rule(width, note=f"{fold}{keys}".strip())]
        pages = [Line((("   ", ""), *self._page_spans(width - 3)))] if self._folded.pages else []
        if not self._lines:
            self._row_indexes = []
            return [*rule, Line((self._describe_nothing(),)), *pages]
        rows = self._place_rows()
        self._row_indexes = [index for index, _ in rows]
        return [*rule, *(line for _, line in rows), *pages]

    def _describe_nothing(self) -> Span:
        """Why there is no line: nothing is wrong only if no page failed either."""
        if self.console_app.last_poll is None:
            return "   reading …", "dim"
        if not self._last_id:
            return "   no lines yet", "dim"
        if not self._folds_pages or self.log_filter != LogFilter():
            return "   no line matches", "dim"
        if self.failed_count:
            return f"   {plural(self.failed_count, 'page')} failed: 4 lists them", "bad"
        return "   ✓ no trouble", "dim"

    def _page_spans(self, width: int) -> list[Span]:
        """The pages that went well, by host; those of the newest page first, as many as fit."""
        spans: list[Span] = []
        for host, pages in reversed(self._folded.pages.items()):
            p50 = f"  p50 {format_latency(median(pages.seconds))}" if pages.seconds else ""
            text = f"{'   ·   ' if spans else ''}{host} last {pages.count:,} ok{p50}"
            width -= len(text)
            if spans and width < 0:
                break
            spans.append((text, "dim"))
        return spans

    def _place_rows(self) -> list[tuple[int, Line]]:
        """Return the visible rows with the index of their line. They are placed so that the cursor is visible."""
        top = self._top_index
        if top is not None:
            top = max(0, min(top, self._cursor, self._last_top_index()))
            rows, bottom = self._rows_from(top)
            if self._cursor > bottom:
                top, self._bottom_index = None, self._cursor
        if top is None:
            self._bottom_index = min(max(self._bottom_index, self._cursor), len(self._lines) - 1)
            rows, self._first_visible = self._rows_up_to(self._bottom_index)
            if self._cursor < self._first_visible:
                top = max(0, self._cursor)
                rows, self._bottom_index = self._rows_from(top)
        if top is not None:
            self._first_visible = top
        self._top_index = top
        return rows

    def _rows_from(self, top: int) -> tuple[list[tuple[int, Line]], int]:
        """Return a page of rows from `top` on, and the last index that is visible as a whole."""
        rows: list[tuple[int, Line]] = []
        bottom, count, width = top, self.page_lines, self.text_width
        for index in range(top, len(self._lines)):
            rows += [(index, line) for line in self._event_lines(index, width)]
            if len(rows) <= count:
                bottom = index
            if len(rows) >= count:
                break
        return rows[:count], bottom

    def _rows_up_to(self, bottom: int) -> tuple[list[tuple[int, Line]], int]:
        """Return a page of rows that ends with `bottom`, and the first index that is visible."""
        rows: list[tuple[int, Line]] = []
        top, count, width = bottom, self.page_lines, self.text_width
        while top >= 0 and len(rows) < count:
            rows += [(top, line) for line in reversed(self._event_lines(top, width))]
            top -= 1
        rows.reverse()
        return rows[-count:], top + 1

    def _last_top_index(self) -> int:
        """Return the first visible index when the last line is at the bottom."""
        last = len(self._lines) - 1
        return self._rows_up_to(last)[1] if self.wrap else max(0, last + 1 - self.page_lines)

    def scroll_position(self) -> tuple[int, int]:
        """Return the first visible index, and its largest value. Wrapped lines count once."""
        last_top = self._last_top_index() if self._lines else 0
        return min(self._first_visible, last_top), last_top

    def scroll_lines_to(self, position: int) -> None:
        """Show the lines from `position` on and keep the cursor visible. The end of the log resumes following."""
        if position >= self._last_top_index():
            self.action_bottom()
            return
        self._top_index = max(0, position)
        bottom = self._rows_from(self._top_index)[1]
        self._move_cursor(max(self._top_index, min(self._cursor, bottom)))

    def _event_lines(self, index: int, width: int) -> list[Line]:
        line = self._lines[index]
        event, role = line.event, LEVEL_ROLES[line.event.level]
        is_cursor = index == self._cursor and self.has_focus and not self.following
        source = event.source if event.kind == "command" else event.source[:5]  # who gave an order is never cut
        head_width = _HEAD_WIDTH + max(0, len(source) - 5)
        size = max(10, width - head_width)
        text, tail, path = (clean(part) for part in line.describe())
        if not self.wrap:
            room = max(_MIN_REASON, size - len(tail))
            text = fit(shorten_line(text, room), room).rstrip()
            tail = fit(tail, size - len(text)).rstrip()
        text += tail
        parts = [text[i : i + size] for i in range(0, len(text), size)] or [""]
        rest = size - len(parts[-1]) - 2
        path = shorten_name(path, rest) if rest >= _MIN_PATH else ""
        head: list[Span] = [
            (">" if is_cursor else " ", "accent"),
            (format_time(event.at) + " ", "dim"),
            (f"{_LEVEL_LABELS[event.level]:<5} ", role),
            (f"{source:<5} ", "accent"),
        ]
        base = "cursor" if is_cursor else ""
        heads = [head, *([(" " * (head_width - 1), "")] for _ in parts[1:])]
        lines = [[*head, *highlight(part, role, self.search_pattern)] for head, part in zip(heads, parts, strict=True)]
        lines[-1] += [("  ", ""), *highlight(path, "dim", self.search_pattern)]
        return [Line(spans, base) for spans in lines]

    # --- keys

    def _move_cursor(self, index: int) -> None:
        last = len(self._lines) - 1
        self._cursor = max(0, min(index, last))
        self.following = False
        self.redraw()

    def move(self, lines: int) -> None:
        """Move the cursor and stop following."""
        self._move_cursor(self._cursor + lines)

    def action_down(self) -> None:
        if self._cursor >= len(self._lines) - 1:
            self.action_bottom()
        else:
            self.move(1)

    def action_top(self) -> None:
        self._move_cursor(0)

    def action_bottom(self) -> None:
        """Move the cursor to the newest line and follow."""
        self.following = True
        self.pull_lines()

    def action_follow(self) -> None:
        if self.following:
            self.move(0)
        else:
            self.action_bottom()

    def action_wrap(self) -> None:
        self.wrap = not self.wrap
        self.redraw()

    def action_fold(self) -> None:
        self.folds = not self.folds
        self._read_again()

    def action_level(self) -> None:
        """Raise the lowest level that is shown; after the highest level, show all."""
        self.set_filter(replace(self.log_filter, level=LEVELS[(LEVELS.index(self.log_filter.level) + 1) % len(LEVELS)]))

    def action_filter(self) -> None:
        """Ask for a search pattern and go to the last line that matches."""
        self.console_app.prompt.ask(
            "search (regular expression)",
            self.search_pattern.pattern if self.search_pattern else "",
            self._apply_search,
        )

    def _apply_search(self, text: str) -> None:
        self.search_pattern = compile_pattern(text)
        self._read_again()
        if self.search_pattern is not None:
            self._go_to_match(range(len(self._lines) - 1, -1, -1))

    def action_log_filter(self) -> None:
        current = self.log_filter
        text = ("!" if current.negated else "") + current.pattern.pattern if current.pattern else ""
        self.console_app.prompt.ask("only lines that match; !x: without x", text, self._apply_line_filter)

    def _apply_line_filter(self, text: str) -> None:
        self.set_filter(
            replace(self.log_filter, pattern=compile_pattern(text.lstrip("!")), negated=text.startswith("!"))
        )

    def action_back(self) -> None:
        """Clear the search, else the filter, else leave the view."""
        if self.search_pattern is not None:
            self.search_pattern = None
            self._read_again()
        elif self.log_filter.pattern is not None or self.log_filter.sources:
            self.set_filter(LogFilter(self.log_filter.level))
        else:
            raise SkipAction

    def action_copy(self) -> None:
        if self.event is not None:
            self.console_app.desktop.copy_text(self.event.text)

    def action_edit(self) -> None:
        if self.event is not None:
            self.console_app.desktop.edit_mentioned_file(self.event.text)

    def action_export(self) -> None:
        rows = [(format_time(e.at), e.level, e.source, e.kind, e.text) for e in self.matching_events()]
        self.console_app.desktop.export_rows("log", ("at", "level", "source", "kind", "text"), rows)

    def action_next_match(self) -> None:
        self._go_to_match(range(self._cursor + 1, len(self._lines)))

    def action_previous_match(self) -> None:
        self._go_to_match(range(self._cursor - 1, -1, -1))

    def _go_to_match(self, indexes: Sequence[int]) -> None:
        if self.search_pattern is None:
            self.console_app.show_toast("no search: press / first", "warning")
            return
        match = next((i for i in indexes if self.search_pattern.search(self._lines[i].event.text)), None)
        if match is None:
            self.console_app.show_toast(f"no more lines match {self.search_pattern.pattern}")
        else:
            self._move_cursor(match)

    def action_open(self) -> None:
        if self.event is not None:
            self.console_app.navigation.push_event_job(self.event)

    def on_click(self, event: events.Click) -> None:
        if 0 < event.y <= len(self._row_indexes):
            self._move_cursor(self._row_indexes[event.y - 1])
            if event.chain >= 2:
                self.action_open()
