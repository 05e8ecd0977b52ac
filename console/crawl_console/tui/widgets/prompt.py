"""Input line for filters and searches: Enter submits, Escape cancels."""

from collections.abc import Callable
from typing import Any

from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input
from textual.widgets.input import Selection

from crawl_engine.errors import UsageError

_PREVIEW_DELAY = 0.25


class Prompt(Input):
    """Passes the submitted text to a callback and returns the focus to the widget that had it."""

    def __init__(self, show_problem: Callable[[str], None], show_label: Callable[[str], None]) -> None:
        """`show_problem` shows why a text is not accepted, `show_label` what is asked for; empty texts end that."""
        super().__init__(id="prompt", compact=True, select_on_focus=False)
        self._show_problem = show_problem
        self._show_label = show_label
        self._callback: Callable[[str], Any] | None = None
        self._previous_focus: Widget | None = None
        self._preview: Callable[[str], None] | None = None
        self._timer: Timer | None = None

    def ask(
        self, label: str, value: str, callback: Callable[[str], Any], *, preview: Callable[[str], None] | None = None
    ) -> None:
        """Open the prompt with `value` as its text. `preview` gets the text when it has not changed for a moment."""
        self._preview = preview
        self._previous_focus = self.screen.focused
        self._callback = callback
        self.placeholder = label
        self._show_label(label)
        self.value = value
        self.display = True
        self.screen.set_focus(self)
        self.selection = Selection(0, len(value))  # what is typed takes its place; an arrow key keeps it

    def refuse(self, label: str) -> None:
        """Say why nothing is asked for. The text that the operator types nevertheless goes nowhere."""
        self.ask(label, "", lambda _: None)

    def submit(self, value: str) -> None:
        """Call the callback and close the prompt. A text that is not accepted stays: no key of it becomes a command."""
        if self._callback is not None:
            try:
                self._callback(value)
            except UsageError as error:
                self._show_problem(f"{error.message}. {error.remedy}")
                return
        self.close()

    def on_input_changed(self) -> None:
        self._show_problem("")
        if self._preview is not None:
            if self._timer is not None:
                self._timer.stop()
            self._timer = self.set_timer(_PREVIEW_DELAY, self._run_preview)

    def _run_preview(self) -> None:
        if self._preview is not None and self.display:
            self._preview(self.value)

    def close(self) -> None:
        """Hide the prompt without calling the callback."""
        if not self.display:
            return
        self._callback = None
        self._show_problem("")
        self._show_label("")
        if self._preview is not None:
            self._preview("")
            self._preview = None
        self.display = False
        if self._previous_focus is not None and self._previous_focus.is_attached:
            self.screen.set_focus(self._previous_focus)
