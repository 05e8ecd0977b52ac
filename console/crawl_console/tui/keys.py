"""What the app does with keys that no focused widget or view handled; the others report `not here`.

Textual's own dispatch cannot do this: it offers no key to the top view while the focus is outside the view (in the
prompt, or nowhere while a view opens), and it drops unhandled keys silently.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from textual.actions import SkipAction
from textual.dom import DOMNode
from textual.widget import Widget

from crawl_console.tui.bindings import KEYS_BY_ID, SCREEN_NAMES, changes_run, key_label
from crawl_console.tui.host import AppHost
from crawl_console.tui.navigation import Navigation
from crawl_console.tui.widgets.pane import Pane

_ASK_FOR_TEXT = ("filter", "log_filter", "exclude", "host_delay", "host_concurrency")
_ELSEWHERE = {
    "kill": "kills on screen 1 (Nodes): a node, or the whole run",
    "add": "adds a node on screen 1 (Nodes)",
    "retire": "retires a node on screen 1 (Nodes)",
    "exclude": "excludes queued jobs on screen 2 (Jobs)",
    "host_delay": "sets the delay of a host on screen 3 (Hosts)",
    "host_concurrency": "sets the concurrency of a host on screen 3 (Hosts)",
    "host_reset": "goes back to the defs' values of a host on screen 3 (Hosts)",
    "log_filter": "filters the lines of the log on screen 6 (Log)",
}
"""Keys that act on one screen only; on other screens they name it."""


class UnhandledKeys:
    """`handlers`: what the app does, by the key's id."""

    def __init__(self, app: AppHost, navigation: Navigation, handlers: Mapping[str, Callable[[], object]]) -> None:
        self._app = app
        self._navigation = navigation
        self._handlers: dict[str, Callable[[], object]] = {
            **{name: partial(navigation.switch_to, name) for name in SCREEN_NAMES},
            "back": self._go_back,
            "zoom": partial(app.show_toast, "this view has one pane"),
            **handlers,
        }

    def run(self, key_id: str, *, focused: Widget | None) -> None:
        if self._app.options.read_only and changes_run(key_id):
            self._refuse(key_id, "read-only: this console sends no commands", focused)
            return
        action = self._top_view_action(key_id, focused)
        if action is not None:
            try:
                action()
            except SkipAction:
                pass
            else:
                return
        handler = self._handlers.get(key_id)
        if handler is not None:
            handler()
            return
        label, where = key_label(key_id, self._app.options.config.keys), _ELSEWHERE.get(key_id)
        text = f"{label} {where}" if where else f"{label}: {KEYS_BY_ID[key_id].description} — not here"
        self._refuse(key_id, text, focused)

    def _refuse(self, key_id: str, text: str, focused: Widget | None) -> None:
        """Say that a key does nothing here; what is typed after it is no command."""
        if key_id in _ASK_FOR_TEXT:
            self._app.prompt.refuse(text)
        elif key_id == "sort" and isinstance(focused, Pane):
            focused.await_key(f"{text}; any key leaves")
        else:
            self._app.show_toast(text, "warning")

    def _top_view_action(self, key_id: str, focused: Widget | None) -> Callable[[], object] | None:
        """The top view's action, unless Textual has tried it: it tries the focused widget and its ancestors."""
        top = self._navigation.top
        tried: Sequence[DOMNode] = list(focused.ancestors_with_self) if focused is not None else []
        if top is None or top in tried or (key_id == "back" and self._app.prompt.display):
            return None
        action: Callable[[], object] | None = getattr(top, f"action_{key_id}", None)
        return action

    def _go_back(self) -> None:
        if self._app.prompt.display:
            self._app.prompt.close()
        elif self._navigation.depth > 1:
            self._navigation.pop_view()
        else:
            self._app.leave_for_list()


def app_handlers(app: AppHost) -> Mapping[str, Callable[[], object]]:
    actions = app.actions
    return {
        "palette": app.show_palette,
        "help": app.show_keys,
        "freeze": app.toggle_freeze,
        "theme": app.use_next_theme,
        "alarms": app.navigation.push_alarms,
        "acknowledge": app.acknowledge_alarms,
        "next_trouble": app.navigation.go_to_next_trouble,
        "undo": actions.undo,
        "cancel": actions.confirm_cancel,
        "restart": actions.restart_supervisor,
        "pause": actions.toggle_pause,
        "reload": actions.reload,
        "copy": actions.publish_saved_defs,
        "suspend": app.action_suspend_process,
        "quit": app.quit_flow.quit,
    }
