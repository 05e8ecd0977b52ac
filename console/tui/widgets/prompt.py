"""The line where a filter or a search is typed. Enter takes it, `esc` leaves things as they were."""

from collections.abc import Callable
from typing import Any

from textual.widget import Widget
from textual.widgets import Input


class Prompt(Input):
    """Opened with a label and with who wants the text; gives the focus back."""

    def __init__(self) -> None:
        super().__init__(id="prompt", compact=True, select_on_focus=False)
        self._callback: Callable[[str], Any] | None = None
        self._previous_focus: Widget | None = None

    def ask(self, label: str, value: str, wants: Callable[[str], Any]) -> None:
        """Open, with a text to begin with."""
        self._previous_focus = self.screen.focused
        self._callback = wants
        self.placeholder = label
        self.value = value
        self.display = True
        self.screen.set_focus(self)
        self.cursor_position = len(value)

    def submit(self, value: str) -> None:
        """Hand the text over."""
        wants = self._callback
        self.close()
        if wants is not None:
            wants(value)

    def close(self) -> None:
        """Leave."""
        if not self.display:
            return
        self._callback = None
        self.display = False
        if self._previous_focus is not None and self._previous_focus.is_attached:
            self.screen.set_focus(self._previous_focus)
