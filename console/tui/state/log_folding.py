"""Folds log lines that say the same again: consecutive ones that differ in their URL and numbers alone."""

import re
from collections.abc import Iterable

from engine.store.tables.events import Event

_URL = re.compile(r"https?://\S+")
_NUMBER = re.compile(r"\d[\d.,]*")


class FoldedLines:
    """The lines of a log, newest last. A line that repeats the one before takes its place, and counts it."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, Event]] = []
        self._repeats: dict[int, int] = {}
        self._last_shape: tuple[str, str] | None = None

    def clear(self) -> None:
        """Forget all lines."""
        self.lines, self._repeats, self._last_shape = [], {}, None

    def extend(self, lines: Iterable[tuple[int, Event]], *, fold: bool) -> None:
        """Add lines; with `fold`, repeats are folded."""
        for id_, event in lines:
            shape = _shape(event) if fold else None
            if shape is not None and shape == self._last_shape and self.lines:
                count = self._repeats.pop(self.lines[-1][0], 1)
                self._repeats[id_] = count + 1
                self.lines[-1] = (id_, event)
            else:
                self.lines.append((id_, event))
            self._last_shape = shape

    def drop_first(self, count: int) -> None:
        """Forget the oldest lines."""
        for id_, _ in self.lines[:count]:
            self._repeats.pop(id_, None)
        del self.lines[:count]

    def count(self, id_: int) -> int:
        """How many lines this one stands for."""
        return self._repeats.get(id_, 1)


def _shape(event: Event) -> tuple[str, str] | None:
    """What a problem or a skipped page says besides its URL and numbers; None for other lines: each is shown."""
    if event.level == "INFO" and not event.text.startswith("SKIPPED"):
        return None
    return event.level, _NUMBER.sub("#", _URL.sub("", event.text))
