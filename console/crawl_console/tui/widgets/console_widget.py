"""Base of views and canvases: knows the app as a protocol, binds keys to `action_<key id>`."""

from typing import Any, cast

from textual.widget import Widget

from crawl_console.tui.bindings import KEYS_BY_ID, changes_run, key_bindings
from crawl_console.tui.host import AppHost


class ConsoleWidget(Widget):
    def __init_subclass__(cls, **options: Any) -> None:
        """Bind the keys of the table that the class has an action for."""
        cls.BINDINGS = key_bindings(vars(cls))
        super().__init_subclass__(**options)

    @property
    def console_app(self) -> AppHost:
        return cast("AppHost", self.app)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Pass a key on to the app: one that changes the run in a read-only console, and `y` while saved defs wait."""
        app = self.console_app
        if action == "copy" and app.publishes_at_copy:
            return False
        return not (action in KEYS_BY_ID and changes_run(action) and app.options.read_only)
