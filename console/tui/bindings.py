"""Every key, once: bindings, the key panel, the hints below and the document are all made from this table."""

from typing import NamedTuple


class Key(NamedTuple):
    """A key. `id` names it for a user's keymap; `keys` are Textual's names, the first one is shown."""

    id: str
    keys: str
    label: str
    description: str
    group: str


MOVE, VIEW, ACT, LOG, QUIT = "Move", "Look", "Act", "Log", "Leave"

KEYS: tuple[Key, ...] = (
    Key("down", "down,j", "↓ j", "next row", MOVE),
    Key("up", "up,k", "↑ k", "row before", MOVE),
    Key("page_down", "pagedown", "PgDn", "page down", MOVE),
    Key("page_up", "pageup", "PgUp", "page up", MOVE),
    Key("top", "g,home", "g", "first row", MOVE),
    Key("bottom", "G,end", "G", "last row", MOVE),
    Key("open", "enter", "↵", "open: node → jobs → job", MOVE),
    Key("back", "escape", "esc", "back; leave a filter", MOVE),
    Key("next_pane", "tab", "tab", "next pane; tab of a job", MOVE),
    Key("previous_pane", "shift+tab", "⇧tab", "pane before", MOVE),
    Key("nodes", "1", "1", "Nodes", MOVE),
    Key("jobs", "2", "2", "Jobs", MOVE),
    Key("hosts", "3", "3", "Hosts", MOVE),
    Key("failed", "4", "4", "Failed", MOVE),
    Key("defs", "5", "5", "Defs", MOVE),
    Key("log", "6", "6", "Log", MOVE),
    Key("plots", "7", "7", "Plots", MOVE),
    Key("filter", "slash", "/", "filter: regex !x host:x", VIEW),
    Key("palette", "colon,ctrl+p", ":", "command palette", VIEW),
    Key("help", "question_mark", "?", "keys", VIEW),
    Key("sort", "s", "s", "sort by next column", VIEW),
    Key("reverse", "S", "S", "reverse the order", VIEW),
    Key("zoom", "z", "z", "this pane alone", VIEW),
    Key("freeze", "F", "F", "freeze the display alone", VIEW),
    Key("theme", "T", "T", "next theme", VIEW),
    Key("export", "ctrl+s", "^s", "what is shown, as CSV", VIEW),
    Key("payload", "v", "v", "payload of the job", VIEW),
    Key("url", "o", "o", "open URL in a browser", VIEW),
    Key("copy", "y", "y", "copy URL or line", VIEW),
    Key("edit", "e", "e", "edit the def in $EDITOR", VIEW),
    Key("try", "t", "t", "try defs on its page", VIEW),
    Key("mark", "space", "space", "mark the row", ACT),
    Key("mark_all", "asterisk", "*", "mark all that match", ACT),
    Key("cancel", "c", "c", "cancel the run in order", ACT),
    Key("kill", "X", "X", "kill marked nodes, or run", ACT),
    Key("drain", "x", "x", "drain a node", ACT),
    Key("add", "plus", "+", "add a node", ACT),
    Key("retire", "minus", "-", "retire a node", ACT),
    Key("restart", "R", "R", "restart a node", ACT),
    Key("pause", "p", "p", "pause or resume intake", ACT),
    Key("retry", "r", "r", "retry marked, or all match", ACT),
    Key("reload", "ctrl+r", "^r", "reload the defs", ACT),
    Key("follow", "f", "f", "follow the log", LOG),
    Key("wrap", "w", "w", "wrap long lines, or cut", LOG),
    Key("next_match", "n", "n", "next match", LOG),
    Key("previous_match", "N", "N", "match before", LOG),
    Key("level", "L", "L", "least level of the log", LOG),
    Key("log_of", "l", "l", "log of this node, or all", LOG),
    Key("log_filter", "ampersand", "&", "only lines that match", LOG),
    Key("suspend", "ctrl+z", "^z", "to the shell; fg comes back", QUIT),
    Key("quit", "q,ctrl+c", "q", "leave: detach, stop, kill", QUIT),
)

ASCII_KEY_LABELS = {"↵": "enter", "⇧tab": "S-tab", "↓ j": "j", "↑ k": "k"}
"""How keys are named on a terminal that has none of their signs."""
KEYS_BY_ID = {key.id: key for key in KEYS}
SCREEN_NAMES = ("nodes", "jobs", "hosts", "failed", "defs", "log", "plots")
