"""The one table of keys: bindings, the key panel, the hint bar and the docs are made from it.

A view or widget handles a key by a method `action_<id>`; its class then gets the binding (`key_bindings`). Textual asks
the focused widget first, then its view, then the app, which has a binding for every key. An action that raises
`SkipAction` passes the key on.
"""

from collections.abc import Mapping
from typing import NamedTuple

from textual.binding import Binding, BindingType
from textual.keys import key_to_character

ASCII_KEY_LABELS = {"↵": "enter", "⇧tab": "S-tab", "↓ j": "j", "↑ k": "k"}
"""Labels for terminals without UTF-8."""
SCREEN_NAMES = ("nodes", "jobs", "hosts", "failed", "defs", "log", "plots", "runs")
SUPERVISOR_KEYS = (
    "cancel", "kill", "drain", "add", "retire", "pause", "host_delay", "host_concurrency", "host_reset", "reload",
)  # fmt: skip
"""Keys that do nothing without a supervisor."""
READ_ONLY_ACTIONS = ("mark", "mark_all")
"""Keys of the group `Act` that change nothing in the run."""
_UNBOUND = "unbound"
"""A key that no terminal sends: for an action whose keys all moved to others."""
_NAMED_CHARACTERS = {
    "slash": "/",
    "plus": "+",
    "minus": "-",
    "vertical_line": "|",
    "equals_sign": "=",
    "exclamation_mark": "!",
}


class Key(NamedTuple):
    """A key. `id`: its name in a user's keymap. `keys`: Textual's key names, separated by commas."""

    id: str
    keys: str
    label: str
    description: str
    group: str


MOVE, VIEW, ACT, LOG, QUIT = "Move", "View", "Act", "Log", "Quit"

KEYS: tuple[Key, ...] = (
    Key("down", "down,j", "↓ j", "next row", MOVE),
    Key("up", "up,k", "↑ k", "previous row", MOVE),
    Key("page_down", "pagedown", "PgDn", "page down", MOVE),
    Key("page_up", "pageup", "PgUp", "page up", MOVE),
    Key("top", "g,home", "g", "first row", MOVE),
    Key("bottom", "G,end", "G", "last row", MOVE),
    Key("open", "enter", "↵", "open: node → jobs → job", MOVE),
    Key("back", "escape", "esc", "back; clear the filter", MOVE),
    Key("next_pane", "tab", "tab", "next pane, or tab of a job", MOVE),
    Key("previous_pane", "shift+tab", "⇧tab", "previous pane", MOVE),
    Key("nodes", "1", "1", "Nodes", MOVE),
    Key("jobs", "2", "2", "Jobs", MOVE),
    Key("hosts", "3", "3", "Hosts", MOVE),
    Key("failed", "4", "4", "Failed", MOVE),
    Key("defs", "5", "5", "Defs", MOVE),
    Key("log", "6", "6", "Log", MOVE),
    Key("plots", "7", "7", "Plots", MOVE),
    Key("runs", "8", "8", "Runs", MOVE),
    Key("filter", "slash", "/", "filter: regex !x host:x", VIEW),
    Key("palette", "colon,ctrl+p", ":", "command palette", VIEW),
    Key("help", "question_mark", "?", "keys", VIEW),
    Key("sort", "s", "s", "sort: then a column's letter", VIEW),
    Key("reverse", "S", "S", "reverse the order", VIEW),
    Key("columns", "vertical_line", "|", "choose the columns", VIEW),
    Key("zoom", "z", "z", "zoom this pane", VIEW),
    Key("freeze", "F", "F", "freeze the display", VIEW),
    Key("theme", "T", "T", "next theme", VIEW),
    Key("export", "ctrl+s", "^s", "export this view (CSV)", VIEW),
    Key("alarms", "A", "A", "alarms and their history", VIEW),
    Key("acknowledge", "a", "a", "acknowledge the alarms", VIEW),
    Key("next_trouble", "exclamation_mark", "!", "go to the next trouble", VIEW),
    Key("payload", "v", "v", "show the job's payload", VIEW),
    Key("url", "o", "o", "open the URL in a browser", VIEW),
    Key("copy", "y", "y", "copy the URL or line", VIEW),
    Key("edit", "e", "e", "edit the def in $EDITOR", VIEW),
    Key("try", "t", "t", "try the defs on this page", VIEW),
    Key("mark", "space", "space", "mark the row", ACT),
    Key("mark_all", "asterisk", "*", "mark all matching rows", ACT),
    Key("cancel", "c", "c", "cancel the run gracefully", ACT),
    Key("kill", "X", "X", "kill marked nodes or run", ACT),
    Key("drain", "x", "x", "drain a node", ACT),
    Key("add", "plus", "+", "add a node", ACT),
    Key("retire", "minus", "-", "remove a node", ACT),
    Key("restart", "R", "R", "restart a node, or the run", ACT),
    Key("pause", "p", "p", "pause or resume run or host", ACT),
    Key("retry", "r", "r", "retry marked or matching", ACT),
    Key("host_delay", "d", "d", "delay of this host", ACT),
    Key("host_concurrency", "C", "C", "concurrency of this host", ACT),
    Key("host_reset", "D", "D", "back to the defs' values", ACT),
    Key("exclude", "E", "E", "exclude queued jobs", ACT),
    Key("undo", "u", "u", "undo pause, exclude, retry", ACT),
    Key("reload", "ctrl+r", "^r", "reload the defs", ACT),
    Key("follow", "f", "f", "follow the log", LOG),
    Key("wrap", "w", "w", "wrap or cut long lines", LOG),
    Key("fold", "equals_sign", "=", "trouble alone, or all lines", LOG),
    Key("next_match", "n", "n", "next match", LOG),
    Key("previous_match", "N", "N", "previous match", LOG),
    Key("level", "L", "L", "minimum log level", LOG),
    Key("log_of", "l", "l", "log of a node, errors of a host", LOG),
    Key("log_filter", "ampersand", "&", "show matching lines only", LOG),
    Key("suspend", "ctrl+z", "^z", "suspend; fg resumes", QUIT),
    Key("quit", "q,ctrl+c", "q", "quit: detach, stop, kill", QUIT),
)

KEYS_BY_ID = {key.id: key for key in KEYS}


def key_bindings(namespace: Mapping[str, object]) -> list[BindingType]:
    """The bindings of a class: one for each key that its namespace has an `action_<id>` method for."""
    return [_bind(key, key.id) for key in KEYS if f"action_{key.id}" in namespace]


def fallback_bindings() -> list[BindingType]:
    """A binding for every key, for the app: `action_run_key` runs what no view or widget handled."""
    return [_bind(key, f"run_key('{key.id}')") for key in KEYS]


def _bind(key: Key, action: str) -> Binding:
    return Binding(key.keys, action, key.description, id=key.id, show=False)


def changes_run(key_id: str) -> bool:
    """Whether a read-only console refuses the key."""
    return KEYS_BY_ID[key_id].group == ACT and key_id not in READ_ONLY_ACTIONS


def resolve_keymap(user_keys: Mapping[str, str]) -> dict[str, str]:
    """Textual's keymap: the user's keys, and no key left on an action that it was moved away from."""
    moved = {_character(key) for keys in user_keys.values() for key in keys.split(",")}
    keymap = dict(user_keys)
    for key in KEYS:
        keys = key.keys.split(",")
        kept = [name for name in keys if _character(name) not in moved]
        if key.id not in user_keys and kept != keys:
            keymap[key.id] = ",".join(kept) or _UNBOUND
    return keymap


def key_to_press(key_id: str, user_keys: Mapping[str, str]) -> str | None:
    """The first key of an action; None if the user moved all its keys to other actions."""
    keys = resolve_keymap(user_keys).get(key_id, KEYS_BY_ID[key_id].keys)
    return None if keys == _UNBOUND else keys.split(",")[0]


def key_label(key_id: str, user_keys: Mapping[str, str], *, ascii_only: bool = False) -> str:
    """How a key is shown: the user's first key for it; empty if all its keys moved to other actions."""
    keys = resolve_keymap(user_keys).get(key_id)
    if keys is None:
        label = KEYS_BY_ID[key_id].label
        return ASCII_KEY_LABELS.get(label, label) if ascii_only else label
    return "" if keys == _UNBOUND else _character(keys.split(",")[0]).replace("ctrl+", "^")


def _character(key: str) -> str:
    key = key.strip()
    return key if len(key) == 1 else _NAMED_CHARACTERS.get(key) or key_to_character(key) or key
