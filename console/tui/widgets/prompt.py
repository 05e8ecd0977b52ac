"""Input line for filters and searches: Enter submits, Escape cancels."""

from collections.abc import Callable
from typing import Any

from textual.widget import Widget
from textual.widgets import Input


class Prompt(Input):
    """Passes the submitted text to a callback and returns the focus to the widget that had it."""

    def __init__(self) -> None:
        super().__init__(id="prompt", compact=True, select_on_focus=False)
        self._callback: Callable[[str], Any] | None = None
        self._previous_focus: Widget | None = None

    def ask(self, label: str, value: str, callback: Callable[[str], Any]) -> None:
        """Open the prompt with `value` as its text."""
        self._previous_focus = self.screen.focused
        self._callback = callback
        self.placeholder = label
        self.value = value
        self.display = True
        self.screen.set_focus(self)
        self.cursor_position = len(value)

    def submit(self, value: str) -> None:
        """Close the prompt and call the callback."""
        callback = self._callback
        self.close()
        if callback is not None:
            callback(value)

    def close(self) -> None:
        """Hide the prompt without calling the callback."""
        if not self.display:
            return
        self._callback = None
        self.display = False
        if self._previous_focus is not None and self._previous_focus.is_attached:
            self.screen.set_focus(self._previous_focus)
