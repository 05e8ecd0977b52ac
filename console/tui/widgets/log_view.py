"""The log pane: follows the tail, or stands still where the operator reads. Search, level, filter, wrap."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from textual import events
from textual.actions import SkipAction
from textual.message import Message

from console.format import format_time
from console.sanitize import clean
from console.tui.state.log_buffer import LEVELS, MAX_LINES, LogBuffer, LogFilter, compile_pattern
from console.tui.widgets.line_canvas import Line, Span
from console.tui.widgets.pane import Pane
from engine.store.tables.events import Event

_LEVEL_ROLES = {"INFO": "text", "WARNING": "warn", "ERROR": "bad"}
_LEVEL_LABELS = {"INFO": "INFO", "WARNING": "WARN", "ERROR": "ERROR"}
_HEAD_WIDTH = 22


class LogPane(Pane):
    """Lines of a tail through a sieve. `follow` ends when the operator moves up."""

    class LineOpened(Message):
        """A line was opened."""

        def __init__(self, event: Event) -> None:
            super().__init__()
            self.event = event

    def __init__(self, tail: LogBuffer, **named: Any) -> None:
        super().__init__(**named)
        self.log_buffer = tail
        self.log_filter = LogFilter()
        self.search_pattern: re.Pattern[str] | None = None
        self.following = True
        self.wrap = False
        self._matching_lines: list[tuple[int, Event]] = []
        self._last_id = 0
        self._run = 0
        self._cursor = self._bottom_index = -1
        self._last_seen_id = 0

    # --- lines

    def pull_lines(self) -> None:
        """The tail may have grown."""
        if self._run != self.log_buffer.run or self._last_id > self.log_buffer.last_id:
            self._run, self._matching_lines, self._last_id = self.log_buffer.run, [], 0
        fresh = [line for line in _lines_after(self.log_buffer, self._last_id) if self.log_filter.accepts(line[1])]
        self._last_id = self.log_buffer.last_id
        self._matching_lines += fresh
        surplus = len(self._matching_lines) - MAX_LINES
        if surplus > 0:
            del self._matching_lines[:surplus]
            self._cursor, self._bottom_index = max(0, self._cursor - surplus), max(0, self._bottom_index - surplus)
        if self.following:
            self._cursor = self._bottom_index = len(self._matching_lines) - 1
            self._last_seen_id = self._last_id
        self.redraw()

    def set_filter(self, sieve: LogFilter) -> None:
        """Other lines pass from now on."""
        if sieve != self.log_filter:
            self.log_filter, self._matching_lines, self._last_id, self.following = sieve, [], 0, True
            self.pull_lines()

    @property
    def event(self) -> Event | None:
        """The line under the cursor."""
        return self._matching_lines[self._cursor][1] if 0 <= self._cursor < len(self._matching_lines) else None

    def matching_events(self) -> list[Event]:
        """All lines that pass."""
        return [event for _, event in self._matching_lines]

    # --- drawing

    def title(self) -> str:
        """What is shown, and how."""
        who = ", ".join(sorted(self.log_filter.sources)) or "all"
        level = "" if self.log_filter.level == "INFO" else f" · {self.log_filter.level}+"
        only = (
            f" · &{'!' if self.log_filter.negated else ''}{self.log_filter.pattern.pattern}"
            if self.log_filter.pattern
            else ""
        )
        sought = f" · /{self.search_pattern.pattern}" if self.search_pattern else ""
        new = sum(1 for id_, _ in _newest_first(self._matching_lines, self._last_seen_id))
        state = "follow" if self.following else f"▼ {new} new" if new else "stopped"
        return clean(f"log {who} · {state}{level}{only}{sought}")

    def paint(self, width: int, height: int) -> list[Line]:
        """The rule, and lines up to the bottom one."""
        lines = [self.rule(width, note="/ search  & filter  L level  f follow  w wrap" if self.has_focus else "")]
        room = height - 1
        if not self._matching_lines:
            return [*lines, Line((("   no lines yet", "dim"),))]
        self._bottom_index = max(self._bottom_index, self._cursor)
        laid: list[Line] = []
        top = max(0, self._bottom_index)
        for index in range(min(self._bottom_index, len(self._matching_lines) - 1), -1, -1):
            if len(laid) >= room:
                break
            laid[:0] = self._event_lines(index, width)
            top = index
        if self._cursor < top:
            self._bottom_index = self._cursor
            laid = []
            while len(laid) < room and self._bottom_index < len(self._matching_lines):
                laid += self._event_lines(self._bottom_index, width)
                self._bottom_index += 1
            self._bottom_index -= 1
            return lines + laid[:room]
        return lines + laid[-room:]

    def _event_lines(self, index: int, width: int) -> list[Line]:
        event = self._matching_lines[index][1]
        here = index == self._cursor and self.has_focus and not self.following
        role = _LEVEL_ROLES[event.level]
        text, room = clean(event.text), max(10, width - _HEAD_WIDTH)
        parts = [text[i : i + room] for i in range(0, len(text), room)] if self.wrap and len(text) > room else [text]
        head: list[Span] = [
            (">" if here else " ", "accent"),
            (format_time(event.at) + " ", "dim"),
            (f"{_LEVEL_LABELS[event.level]:<5} ", role),
            (f"{event.source[:5]:<5} ", "accent"),
        ]
        base = "cursor" if here else ""
        first = Line((*head, *self._highlight_matches(parts[0], role)), base)
        return [
            first,
            *(Line(((" " * (_HEAD_WIDTH - 1), ""), *self._highlight_matches(p, role)), base) for p in parts[1:]),
        ]

    def _highlight_matches(self, text: str, role: str) -> list[Span]:
        if self.search_pattern is None:
            return [(text, role)]
        spans: list[Span] = []
        at = 0
        for found in self.search_pattern.finditer(text):
            if found.end() > found.start():
                spans += [(text[at : found.start()], role), (found.group(), "match")]
                at = found.end()
        return [*spans, (text[at:], role)]

    # --- what keys do here

    def _move_cursor(self, at: int) -> None:
        last = len(self._matching_lines) - 1
        self._cursor = max(0, min(at, last))
        self.following = False
        self.redraw()

    def action_up(self) -> None:
        """The line before; the pane stands still."""
        self._move_cursor(self._cursor - 1)

    def action_down(self) -> None:
        """The next line; after the last one it follows again."""
        if self._cursor >= len(self._matching_lines) - 1:
            self.action_bottom()
        else:
            self._move_cursor(self._cursor + 1)

    def action_page_up(self) -> None:
        """A page back."""
        self._move_cursor(self._cursor - max(1, self.size.height - 2))

    def action_page_down(self) -> None:
        """A page on."""
        self._move_cursor(self._cursor + max(1, self.size.height - 2))

    def action_top(self) -> None:
        """The oldest line held."""
        self._move_cursor(0)

    def action_bottom(self) -> None:
        """The newest line, and on with it."""
        self.following = True
        self.pull_lines()

    def action_follow(self) -> None:
        """Follow, or stand still."""
        if self.following:
            self._move_cursor(self._cursor)
        else:
            self.action_bottom()

    def action_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        self.wrap = not self.wrap
        self.redraw()

    def action_level(self) -> None:
        """The next least level."""
        self.set_filter(replace(self.log_filter, level=LEVELS[(LEVELS.index(self.log_filter.level) + 1) % len(LEVELS)]))

    def action_filter(self) -> None:
        """Type what to search for; the first match upwards is gone to."""
        self.console_app.prompt.ask(
            "search (regular expression)",
            self.search_pattern.pattern if self.search_pattern else "",
            self._apply_search,
        )

    def _apply_search(self, text: str) -> None:
        self.search_pattern = compile_pattern(text)
        self.redraw()
        if self.search_pattern is not None:
            self._go_to_match(range(len(self._matching_lines) - 1, -1, -1))

    def action_log_filter(self) -> None:
        """Type which lines are shown."""
        now = self.log_filter
        told = ("!" if now.negated else "") + now.pattern.pattern if now.pattern else ""
        self.console_app.prompt.ask("only lines that match; !x: that do not", told, self._apply_line_filter)

    def _apply_line_filter(self, text: str) -> None:
        self.set_filter(
            replace(self.log_filter, pattern=compile_pattern(text.lstrip("!")), negated=text.startswith("!"))
        )

    def action_back(self) -> None:
        """Out of search and filter, then out of here."""
        if self.search_pattern is not None:
            self.search_pattern = None
            self.redraw()
        elif self.log_filter.pattern is not None or self.log_filter.sources:
            self.set_filter(LogFilter(self.log_filter.level))
        else:
            raise SkipAction

    def action_copy(self) -> None:
        """The line."""
        if self.event is not None:
            self.console_app.desktop.copy_text(self.event.text)

    def action_edit(self) -> None:
        """The def that the line names."""
        if self.event is not None:
            self.console_app.desktop.edit_mentioned_file(self.event.text)

    def action_export(self) -> None:
        """The lines, as a CSV file."""
        rows = [(format_time(e.at), e.level, e.source, e.kind, e.text) for e in self.matching_events()]
        self.console_app.desktop.export_rows("log", ("at", "level", "source", "kind", "text"), rows)

    def action_next_match(self) -> None:
        """To the next line that matches the search."""
        self._go_to_match(range(self._cursor + 1, len(self._matching_lines)))

    def action_previous_match(self) -> None:
        """To the line before that matches."""
        self._go_to_match(range(self._cursor - 1, -1, -1))

    def _go_to_match(self, where: range) -> None:
        if self.search_pattern is None:
            self.console_app.show_toast("nothing is searched for: / searches", "warning")
            return
        found = next((i for i in where if self.search_pattern.search(self._matching_lines[i][1].text)), None)
        if found is None:
            self.console_app.show_toast(f"no more lines match {self.search_pattern.pattern}")
        else:
            self._move_cursor(found)

    def action_open(self) -> None:
        """Look into the line's job."""
        if self.event is not None:
            self.post_message(self.LineOpened(self.event))

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Three lines back."""
        self._move_cursor(self._cursor - 3)

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Three lines on."""
        if not self.following:
            self._move_cursor(self._cursor + 3)

    def on_click(self, event: events.Click) -> None:
        """A second click opens the line."""
        if event.chain >= 2:
            self.action_open()


def _lines_after(tail: LogBuffer, upto: int) -> list[tuple[int, Event]]:
    return list(reversed(list(_newest_first(tail.lines, upto))))


def _newest_first(lines: Any, upto: int) -> Iterator[tuple[int, Event]]:
    """Newest first, as far back as `upto`."""
    for line in reversed(lines):
        if line[0] <= upto:
            return
        yield line
