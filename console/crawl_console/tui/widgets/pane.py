"""Focusable canvases whose first line is a rule with the title; a list pane shows an item a line."""

from collections.abc import Iterable, Sequence
from typing import Any

from textual import events

from crawl_console.format import Span, shorten_name
from crawl_console.tui.widgets.line_canvas import Canvas, Line


class Pane(Canvas):
    """A canvas that `tab` can focus. Its `action_…` methods handle keys."""

    can_focus = True
    TITLE = ""
    awaits_key = False
    """Whether the next key ends what the last one began: it is no command."""

    def title(self) -> str:
        return self.TITLE

    def rule(self, width: int, title: str | None = None, note: str = "", headings: str = "") -> Line:
        """Return the first line of the pane, `headings` at its right. A mark shows the focus without colour."""
        focused = self.has_focus
        text = f"─{'▌' if focused else ' '}{title if title is not None else self.title()} "
        spans: list[Span] = [(text, "title" if focused else "accent")]
        if note:
            spans.append((f"─ {note} ", "dim"))
        if headings:
            left = sum(len(part) for part, _ in spans)
            return Line((*spans, ("─" * (width - left - len(headings)), "dim"), (headings, "dim")))
        return Line((*spans, ("─" * width, "dim")))

    def on_focus(self, _event: events.Focus) -> None:
        self.redraw()

    def on_blur(self, _event: events.Blur) -> None:
        self.await_key("")
        self.redraw()

    def await_key(self, note: str) -> None:
        """Keep the next key from being a command; the hint bar says what it does. An empty note ends that."""
        if note or self.awaits_key:
            self.awaits_key = bool(note)
            self.console_app.show_note(note)

    def on_key(self, event: events.Key) -> None:
        if self.awaits_key:
            event.stop()
            event.prevent_default()
            self.await_key("")
            self.take_key(event.key)
            self.redraw()

    def take_key(self, key: str) -> None:
        """The key that `await_key` kept."""


class ListPane(Pane):
    """Lists items: their names, and figures below the headings of the rule."""

    HEADINGS = ""
    EMPTY = ""
    items: Sequence[Any] | None = None
    """None: not read yet."""

    def show(self, items: Iterable[Any]) -> None:
        self.items = list(items)
        self.redraw()

    def note(self) -> str:
        """What the rule says beside the title."""
        return ""

    def spans(self, item: Any) -> tuple[str, Sequence[Span]]:
        """The name of an item, and its figures."""
        raise NotImplementedError

    def paint(self, width: int, height: int) -> list[Line]:
        lines = [self.rule(width, note=self.note(), headings=self.HEADINGS)]
        if not self.items:
            text = "reading …" if self.items is None else self.EMPTY
            return [*lines, Line(((f"   {text}", "dim"),))] if text else lines
        name_width = max(6, width - 3 - len(self.HEADINGS))
        for item in self.items[: height - 1]:
            name, figures = self.spans(item)
            lines.append(Line(((f"   {shorten_name(name, name_width):<{name_width}}", "text"), *figures)))
        return lines
