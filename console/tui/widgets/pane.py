"""A pane: part of a screen that can have the focus. Its first line is a rule with its title."""

from textual import events

from console.tui.widgets.line_canvas import Canvas, Line, Span


class Pane(Canvas):
    """A canvas to be moved to with `tab`. Its `act_…` methods are what keys do here."""

    can_focus = True
    TITLE = ""

    def title(self) -> str:
        """What the rule says."""
        return self.TITLE

    def rule(self, width: int, title: str | None = None, note: str = "") -> Line:
        """The pane's first line; the focused one stands out by its mark, too."""
        focused = self.has_focus
        text = f"─{'▌' if focused else ' '}{title if title is not None else self.title()} "
        spans: list[Span] = [(text, "title" if focused else "accent")]
        if note:
            spans.append((f"─ {note} ", "dim"))
        return Line((*spans, ("─" * width, "dim")))

    def on_focus(self, _event: events.Focus) -> None:
        """Show it."""
        self.redraw()

    def on_blur(self, _event: events.Blur) -> None:
        """Show it."""
        self.redraw()
