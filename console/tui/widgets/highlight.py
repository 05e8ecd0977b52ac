"""Marks what a search finds in a line."""

from console.filter_syntax import SearchPattern
from console.tui.widgets.line_canvas import Span


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
