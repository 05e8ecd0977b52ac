"""Collects problems with their places, so that all are reported at once."""

from msgspec import Struct, field

from crawl_engine.errors import Problem
from crawl_engine.model.stored_form import SourcePosition


def escape_unprintable(text: str) -> str:
    """The text with unprintable characters as escapes: safe to show in a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


class Problems(Struct):
    """The problems so far, without duplicates."""

    _problems: dict[Problem, None] = field(default_factory=dict)
    has_errors: bool = False
    """Whether there is any problem other than warnings."""
    _closed: set[SourcePosition] = field(default_factory=set)

    def add(self, place: SourcePosition, code: str, message: str, *, warning: bool = False) -> None:
        """Adds a problem. A warning does not make the defs invalid."""
        if place in self._closed:
            return
        text = escape_unprintable(message)
        problem = Problem(
            file=place.file, line=place.line, column=place.column, code=code, message=text, warning=warning
        )
        self._problems[problem] = None
        self.has_errors = self.has_errors or not warning

    def warn(self, place: SourcePosition, code: str, message: str) -> None:
        """Adds a warning."""
        self.add(place, code, message, warning=True)

    def close(self, place: SourcePosition) -> None:
        """Drop further problems of a place: they would follow from those it has."""
        self._closed.add(place)

    def in_file_order(self, files: tuple[str, ...]) -> list[Problem]:
        """All problems: those without a file first, then by file in the given order, line and column."""
        order = {file: number for number, file in enumerate(files)}
        return sorted(self._problems, key=lambda p: (order.get(p.file, -1), p.line, p.column))
