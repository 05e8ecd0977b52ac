"""One-line bars: tabs above the view, key hints below it."""

from collections.abc import Sequence

from textual import events
from textual.message import Message

from crawl_console.format import Span
from crawl_console.tui.bindings import KEYS_BY_ID, SCREEN_NAMES
from crawl_console.tui.widgets.header import fit_parts
from crawl_console.tui.widgets.line_canvas import Canvas, Line
from crawl_console.words.run_line import Part

_SHORT_NAME = 4


class Tabs(Canvas):
    """Lists the screens, marks the current one, and shows the breadcrumbs."""

    class Selected(Message):
        def __init__(self, screen: str) -> None:
            super().__init__()
            self.screen_name = screen

    current = "nodes"
    breadcrumbs = ""
    """A filter or a path in them comes before the names of the other screens."""
    failed_count = 0

    def _labels(self, width: int) -> tuple[list[tuple[str, str]], str]:
        """Name and label of each screen, and the gap. Where room is scarce, gaps go first, then ends of the names."""
        failed = f"!{self.failed_count}" if self.failed_count else ""
        for letters, gap in ((None, " "), (None, ""), (_SHORT_NAME, ""), (0, "")):
            labels = [
                (n, f"{i} {KEYS_BY_ID[n].description[:letters]}".strip() + (failed if n == "failed" else ""))
                for i, n in enumerate(SCREEN_NAMES, 1)
            ]
            used = sum(len(label) + 1 + len(gap) for _, label in labels) + 2
            if used + len(self.breadcrumbs) <= width or (letters == _SHORT_NAME and used <= width):
                break
        return labels, gap

    def paint(self, width: int, height: int) -> list[Line]:  # noqa: ARG002
        labels, gap = self._labels(width)
        spans: list[Span] = []
        for name, label in labels:
            is_current = name == self.current
            role = "tab" if is_current else "bad" if "!" in label else "text"
            opens, closes = ("[", "]") if is_current else (" ", gap)
            spans += [(opens, role), (label, role), (closes, role)]
        used = sum(len(text) for text, _ in spans)
        room = width - used - 1
        crumbs = self.breadcrumbs if len(self.breadcrumbs) <= room else "…" + self.breadcrumbs[-(room - 2) :]
        if room > 5:
            spans += [(" " * max(1, width - used - len(crumbs) - 1), ""), (crumbs, "dim")]
        return [Line(spans)]

    def on_click(self, event: events.Click) -> None:
        x = 0
        labels, gap = self._labels(self.size.width)
        for name, label in labels:
            end = x + len(label) + 1 + (1 if name == self.current else len(gap))
            if x <= event.x < end:
                self.post_message(self.Selected(name))
            x = end


class HintBar(Canvas):
    """Shows the main keys of the view, a note while the console waits for something, or a problem of typed text."""

    hints: Sequence[tuple[str, str]] = ()
    """Keys of the view, each with its label; dropped from the right where room is short."""
    general_hints: Sequence[tuple[str, str]] = ()
    """Those that stay."""
    note = ""
    label = ""
    """What the prompt asks for."""
    problem = ""

    def paint(self, width: int, height: int) -> list[Line]:  # noqa: ARG002
        if self.problem:
            return [Line(((f" ✗ {self.problem}", "bad"),), "bar")]
        if self.note:
            return [Line(((f" {self.note}", "strong"),), "bar")]
        if self.label:
            return [Line((("  ", ""), (self.label, "accent"), ("   ↵ accept  esc cancel", "dim")), "bar")]
        parts: list[Part] = [
            (stays, [(f" {key}", "accent"), (f" {label} ", "dim")])
            for stays, hints in ((False, self.hints), (True, self.general_hints))
            for key, label in hints
        ]
        return [Line(fit_parts(parts, width), "bar")]

    def show_label(self, text: str) -> None:
        """Show what the prompt asks for; empty: it is closed."""
        self.label = text
        self.redraw()

    def show_problem(self, text: str) -> None:
        """Show why a typed text is not accepted; empty: it may be."""
        if text != self.problem:
            self.problem = text
            self.redraw()
