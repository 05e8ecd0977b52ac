"""Gathers mistakes and their places, so that all are told at once. Knows nothing of what is being checked."""

from dataclasses import dataclass, field

from engine.errors import Problem
from engine.model.definition import SourcePosition


def escape_unprintable(text: str) -> str:
    """The text with all that a terminal would obey or hide shown as its code: what users wrote is quoted to them."""
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


@dataclass(slots=True)
class Problems:
    """What was found so far; the same thing said twice of one place counts once."""

    _problems: dict[Problem, None] = field(default_factory=dict)

    def add(self, place: SourcePosition, code: str, message: str, *, warning: bool = False) -> None:
        """One mistake; a warning does not stop the defs from being used."""
        line, column, shown = place.line, place.column, escape_unprintable(message)
        problem = Problem(file=place.file, line=line, column=column, code=code, message=shown, warning=warning)
        self._problems[problem] = None

    def warn(self, place: SourcePosition, code: str, message: str) -> None:
        """Something odd that the defs can be used with."""
        self.add(place, code, message, warning=True)

    @property
    def has_errors(self) -> bool:
        """Whether anything worse than a warning was found."""
        return any(not problem.warning for problem in self._problems)

    def in_file_order(self, files: tuple[str, ...]) -> list[Problem]:
        """All of them: those of no single file first, then by file in the order given, line and column."""
        order = {file: number for number, file in enumerate(files)}
        return sorted(self._problems, key=lambda p: (order.get(p.file, -1), p.line, p.column))
