"""A focusable canvas. Its first line is a rule with its title."""

from textual import events

from console.tui.widgets.line_canvas import Canvas, Line, Span


class Pane(Canvas):
    """A canvas that `tab` can focus. Its `action_…` methods handle keys."""

    can_focus = True
    TITLE = ""

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
        self.redraw()
