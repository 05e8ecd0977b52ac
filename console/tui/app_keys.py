"""What the app does with keys that no view handles, by the key's id."""

from collections.abc import Callable, Mapping

from console.tui.host import AppHost

_NODES_ONLY = {
    "add": "+ adds a node on screen 1 (Nodes)",
    "retire": "- retires a node on screen 1 (Nodes)",
}
"""Keys that act on their own screen alone: elsewhere they say where."""


def app_handlers(app: AppHost) -> Mapping[str, Callable[[], object]]:
    """The handlers of an app."""
    actions = app.actions
    return {
        "palette": app.show_palette,
        "help": app.show_keys,
        "freeze": app.toggle_freeze,
        "theme": app.use_next_theme,
        "alarms": app.navigation.push_alarms,
        "acknowledge": app.acknowledge_alarms,
        "undo": actions.undo,
        "cancel": actions.confirm_cancel,
        "kill": actions.refuse_kill,
        "restart": actions.restart_supervisor,
        "pause": actions.toggle_pause,
        "reload": actions.reload,
        "copy": actions.publish_saved_defs,
        "suspend": app.action_suspend_process,
        "quit": app.quit_flow.quit,
        **{key: _teller(app, text) for key, text in _NODES_ONLY.items()},
    }


def _teller(app: AppHost, text: str) -> Callable[[], None]:
    return lambda: app.show_toast(text, "warning")
