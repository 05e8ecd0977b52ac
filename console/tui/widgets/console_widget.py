"""Base of all views and canvases: knows the app as a protocol, and binds keys to its `action_<key id>` methods."""

from typing import Any, cast

from textual.widget import Widget

from console.tui.bindings import KEYS_BY_ID, changes_run, key_bindings
from console.tui.host import AppHost


class ConsoleWidget(Widget):
    """A widget of the console."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Bind the keys of the table that the class has an action for."""
        cls.BINDINGS = key_bindings(vars(cls))
        super().__init_subclass__(**options)

    @property
    def console_app(self) -> AppHost:
        """The app."""
        return cast("AppHost", self.app)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """A read-only console does not run actions that change the run: the key passes on to the app, which says so."""
        return not (action in KEYS_BY_ID and changes_run(action) and self.console_app.options.read_only)
