"""The log pane: follows the tail, or stands still where the operator reads. Search, level, filter, wrap."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from textual import events
from textual.message import Message

from console.format import format_time
from console.sanitize import clean
from console.tui.state.log_buffer import KEPT, LEVELS, Sieve, Tail, pattern
from console.tui.widgets.line_canvas import Line, Span
from console.tui.widgets.pane import Pane
from engine.store.tables.events import Event

_ROLES = {"INFO": "text", "WARNING": "warn", "ERROR": "bad"}
_WORDS = {"INFO": "INFO", "WARNING": "WARN", "ERROR": "ERROR"}
_HEAD = 22


class LogPane(Pane):
    """Lines of a tail through a sieve. `follow` ends when the operator moves up."""

    class Opened(Message):
        """A line was opened."""

        def __init__(self, event: Event) -> None:
            super().__init__()
            self.event = event

    def __init__(self, tail: Tail, **named: Any) -> None:
        super().__init__(**named)
        self.tail = tail
        self.sieve = Sieve()
        self.search: re.Pattern[str] | None = None
        self.follow = True
        self.wrap = False
        self._passed: list[tuple[int, Event]] = []
        self._upto = 0
        self._run = 0
        self._cursor = self._bottom = -1
        self._read_upto = 0

    # --- lines

    def take(self) -> None:
        """The tail may have grown."""
        if self._run != self.tail.run or self._upto > self.tail.cursor:
            self._run, self._passed, self._upto = self.tail.run, [], 0
        fresh = [line for line in _newer(self.tail, self._upto) if self.sieve.lets(line[1])]
        self._upto = self.tail.cursor
        self._passed += fresh
        surplus = len(self._passed) - KEPT
        if surplus > 0:
            del self._passed[:surplus]
            self._cursor, self._bottom = max(0, self._cursor - surplus), max(0, self._bottom - surplus)
        if self.follow:
            self._cursor = self._bottom = len(self._passed) - 1
            self._read_upto = self._upto
        self.redraw()

    def sift(self, sieve: Sieve) -> None:
        """Other lines pass from now on."""
        if sieve != self.sieve:
            self.sieve, self._passed, self._upto, self.follow = sieve, [], 0, True
            self.take()

    @property
    def event(self) -> Event | None:
        """The line under the cursor."""
        return self._passed[self._cursor][1] if 0 <= self._cursor < len(self._passed) else None

    def shown(self) -> list[Event]:
        """All lines that pass."""
        return [event for _, event in self._passed]

    # --- drawing

    def title(self) -> str:
        """What is shown, and how."""
        who = ", ".join(sorted(self.sieve.sources)) or "all"
        level = "" if self.sieve.level == "INFO" else f" · {self.sieve.level}+"
        only = f" · &{'!' if self.sieve.negated else ''}{self.sieve.pattern.pattern}" if self.sieve.pattern else ""
        sought = f" · /{self.search.pattern}" if self.search else ""
        new = sum(1 for id_, _ in _backwards(self._passed, self._read_upto))
        state = "follow" if self.follow else f"▼ {new} new" if new else "stopped"
        return clean(f"log {who} · {state}{level}{only}{sought}")

    def paint(self, width: int, height: int) -> list[Line]:
        """The rule, and lines up to the bottom one."""
        lines = [self.rule(width, note="/ search  & filter  L level  f follow  w wrap" if self.has_focus else "")]
        room = height - 1
        if not self._passed:
            return [*lines, Line((("   no lines yet", "dim"),))]
        self._bottom = max(self._bottom, self._cursor)
        laid: list[Line] = []
        top = max(0, self._bottom)
        for index in range(min(self._bottom, len(self._passed) - 1), -1, -1):
            if len(laid) >= room:
                break
            laid[:0] = self._lines(index, width)
            top = index
        if self._cursor < top:
            self._bottom = self._cursor
            laid = []
            while len(laid) < room and self._bottom < len(self._passed):
                laid += self._lines(self._bottom, width)
                self._bottom += 1
            self._bottom -= 1
            return lines + laid[:room]
        return lines + laid[-room:]

    def _lines(self, index: int, width: int) -> list[Line]:
        event = self._passed[index][1]
        here = index == self._cursor and self.has_focus and not self.follow
        role = _ROLES[event.level]
        text, room = clean(event.text), max(10, width - _HEAD)
        parts = [text[i : i + room] for i in range(0, len(text), room)] if self.wrap and len(text) > room else [text]
        head: list[Span] = [
            (">" if here else " ", "accent"),
            (format_time(event.at) + " ", "dim"),
            (f"{_WORDS[event.level]:<5} ", role),
            (f"{event.source[:5]:<5} ", "accent"),
        ]
        base = "cursor" if here else ""
        first = Line((*head, *self._marked(parts[0], role)), base)
        return [first, *(Line(((" " * (_HEAD - 1), ""), *self._marked(p, role)), base) for p in parts[1:])]

    def _marked(self, text: str, role: str) -> list[Span]:
        if self.search is None:
            return [(text, role)]
        spans: list[Span] = []
        at = 0
        for found in self.search.finditer(text):
            if found.end() > found.start():
                spans += [(text[at : found.start()], role), (found.group(), "match")]
                at = found.end()
        return [*spans, (text[at:], role)]

    # --- what keys do here

    def _stand(self, at: int) -> None:
        last = len(self._passed) - 1
        self._cursor = max(0, min(at, last))
        self.follow = False
        self.redraw()

    def act_up(self) -> None:
        """The line before; the pane stands still."""
        self._stand(self._cursor - 1)

    def act_down(self) -> None:
        """The next line; after the last one it follows again."""
        if self._cursor >= len(self._passed) - 1:
            self.act_bottom()
        else:
            self._stand(self._cursor + 1)

    def act_page_up(self) -> None:
        """A page back."""
        self._stand(self._cursor - max(1, self.size.height - 2))

    def act_page_down(self) -> None:
        """A page on."""
        self._stand(self._cursor + max(1, self.size.height - 2))

    def act_top(self) -> None:
        """The oldest line held."""
        self._stand(0)

    def act_bottom(self) -> None:
        """The newest line, and on with it."""
        self.follow = True
        self.take()

    def act_follow(self) -> None:
        """Follow, or stand still."""
        if self.follow:
            self._stand(self._cursor)
        else:
            self.act_bottom()

    def act_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        self.wrap = not self.wrap
        self.redraw()

    def act_level(self) -> None:
        """The next least level."""
        self.sift(replace(self.sieve, level=LEVELS[(LEVELS.index(self.sieve.level) + 1) % len(LEVELS)]))

    def act_filter(self) -> None:
        """Type what to search for; the first match upwards is gone to."""
        self.console_app.prompt.ask(
            "search (regular expression)", self.search.pattern if self.search else "", self._sought
        )

    def _sought(self, text: str) -> None:
        self.search = pattern(text)
        self.redraw()
        if self.search is not None:
            self._seek(range(len(self._passed) - 1, -1, -1))

    def act_log_filter(self) -> None:
        """Type which lines are shown."""
        now = self.sieve
        told = ("!" if now.negated else "") + now.pattern.pattern if now.pattern else ""
        self.console_app.prompt.ask("only lines that match; !x: that do not", told, self._sifted)

    def _sifted(self, text: str) -> None:
        self.sift(replace(self.sieve, pattern=pattern(text.lstrip("!")), negated=text.startswith("!")))

    def act_back(self) -> None:
        """Out of search and filter, then out of here."""
        if self.search is not None:
            self.search = None
            self.redraw()
        elif self.sieve.pattern is not None or self.sieve.sources:
            self.sift(Sieve(self.sieve.level))
        else:
            self.console_app.stack[-1].act_back()

    def act_copy(self) -> None:
        """The line."""
        if self.event is not None:
            self.console_app.copy(self.event.text)

    def act_edit(self) -> None:
        """The def that the line names."""
        from console.tui.screens.job import place_in

        if self.event is not None:
            self.console_app.edit(place_in(self.event.text))

    def act_export(self) -> None:
        """The lines, as a CSV file."""
        rows = [(format_time(e.at), e.level, e.source, e.kind, e.text) for e in self.shown()]
        self.console_app.export("log", ("at", "level", "source", "kind", "text"), rows)

    def act_next_match(self) -> None:
        """To the next line that matches the search."""
        self._seek(range(self._cursor + 1, len(self._passed)))

    def act_previous_match(self) -> None:
        """To the line before that matches."""
        self._seek(range(self._cursor - 1, -1, -1))

    def _seek(self, where: range) -> None:
        if self.search is None:
            self.console_app.say("nothing is searched for: / searches", "warning")
            return
        found = next((i for i in where if self.search.search(self._passed[i][1].text)), None)
        if found is None:
            self.console_app.say(f"no more lines match {self.search.pattern}")
        else:
            self._stand(found)

    def act_open(self) -> None:
        """Look into the line's job."""
        if self.event is not None:
            self.post_message(self.Opened(self.event))

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Three lines back."""
        self._stand(self._cursor - 3)

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Three lines on."""
        if not self.follow:
            self._stand(self._cursor + 3)

    def on_click(self, event: events.Click) -> None:
        """A second click opens the line."""
        if event.chain >= 2:
            self.act_open()


def _newer(tail: Tail, upto: int) -> list[tuple[int, Event]]:
    return list(reversed(list(_backwards(tail.lines, upto))))


def _backwards(lines: Any, upto: int) -> Iterator[tuple[int, Event]]:
    """Newest first, as far back as `upto`."""
    for line in reversed(lines):
        if line[0] <= upto:
            return
        yield line
