"""The screens and dialogs, one per file. A screen is imported when it is first shown."""

from importlib import import_module

from crawl_console.tui.bindings import SCREEN_NAMES
from crawl_console.tui.screens.base import View
from crawl_console.tui.state.log_buffer import LogBuffer
from crawl_engine.installed import SCREENS, NameTable

INSTALLED_SCREENS: NameTable[type[View]] = NameTable(
    SCREENS, {}, lambda entry: isinstance(entry, type) and issubclass(entry, View), "a View",
    is_taken=SCREEN_NAMES.__contains__,
)  # fmt: skip
"""The screens of packages."""


def create_view(name: str, log_buffer: LogBuffer) -> View:
    """The screen of a name, built-in or installed; one that reads the log gets its buffer. Raises UsageError."""
    if name in SCREEN_NAMES:
        view_class = getattr(import_module(f"crawl_console.tui.screens.{name}"), f"{name.capitalize()}View")
    else:
        view_class = INSTALLED_SCREENS[name]
    view: View = view_class(log_buffer) if view_class.READS_LOG else view_class()
    return view
