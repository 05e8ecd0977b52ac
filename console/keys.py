"""Every key, once: bindings, the key panel, the hints below and the document are all made from this table."""

from typing import NamedTuple


class Key(NamedTuple):
    """A key. `id` names it for a user's keymap; `keys` are Textual's names, the first one is shown."""

    id: str
    keys: str
    shown: str
    does: str
    group: str


MOVE, LOOK, ACT, LOG, LEAVE = "Move", "Look", "Act", "Log", "Leave"

KEYS: tuple[Key, ...] = (
    Key("down", "down,j", "↓ j", "next row", MOVE),
    Key("up", "up,k", "↑ k", "row before", MOVE),
    Key("page_down", "pagedown", "PgDn", "next page of rows", MOVE),
    Key("page_up", "pageup", "PgUp", "page of rows before", MOVE),
    Key("top", "g,home", "g", "first row", MOVE),
    Key("bottom", "G,end", "G", "last row", MOVE),
    Key("open", "enter", "↵", "open: node → jobs → job", MOVE),
    Key("back", "escape", "esc", "back; leave a filter", MOVE),
    Key("next_pane", "tab", "tab", "next pane, or next tab of a job", MOVE),
    Key("previous_pane", "shift+tab", "⇧tab", "pane before", MOVE),
    Key("nodes", "1", "1", "Nodes", MOVE),
    Key("jobs", "2", "2", "Jobs", MOVE),
    Key("hosts", "3", "3", "Hosts", MOVE),
    Key("failed", "4", "4", "Failed", MOVE),
    Key("defs", "5", "5", "Defs", MOVE),
    Key("log", "6", "6", "Log", MOVE),
    Key("plots", "7", "7", "Plots", MOVE),
    Key("filter", "slash", "/", "filter: regex, !x, host:x state:failed age>5m", LOOK),
    Key("palette", "colon,ctrl+p", ":", "command palette", LOOK),
    Key("help", "question_mark", "?", "keys", LOOK),
    Key("sort", "s", "s", "sort by the next column", LOOK),
    Key("reverse", "S", "S", "reverse the order", LOOK),
    Key("zoom", "z", "z", "one pane on the whole screen", LOOK),
    Key("freeze", "F", "F", "freeze the display; the crawl goes on", LOOK),
    Key("theme", "T", "T", "next theme", LOOK),
    Key("export", "ctrl+s", "^s", "write what is shown to a CSV file", LOOK),
    Key("payload", "v", "v", "payload of the job", LOOK),
    Key("url", "o", "o", "open the URL in a browser", LOOK),
    Key("copy", "y", "y", "copy the URL or the line", LOOK),
    Key("edit", "e", "e", "edit the def, at its line, in $EDITOR", LOOK),
    Key("try", "t", "t", "try the defs on the stored page", LOOK),
    Key("mark", "space", "space", "mark the row", ACT),
    Key("mark_all", "asterisk", "*", "mark all that match", ACT),
    Key("cancel", "c", "c", "cancel the run in order", ACT),
    Key("kill", "X", "X", "kill the marked nodes; with none, the run", ACT),
    Key("drain", "x", "x", "drain a node", ACT),
    Key("add", "plus", "+", "add a node", ACT),
    Key("retire", "minus", "-", "retire a node", ACT),
    Key("restart", "R", "R", "restart a node", ACT),
    Key("pause", "p", "p", "pause or resume intake", ACT),
    Key("retry", "r", "r", "retry the marked jobs, or all that match", ACT),
    Key("reload", "ctrl+r", "^r", "reload the defs", ACT),
    Key("follow", "f", "f", "follow the log", LOG),
    Key("wrap", "w", "w", "wrap its lines, or cut them", LOG),
    Key("next_match", "n", "n", "next match", LOG),
    Key("previous_match", "N", "N", "match before", LOG),
    Key("level", "L", "L", "least level: info, warning, error", LOG),
    Key("log_of", "l", "l", "log of the chosen nodes, or of all", LOG),
    Key("log_filter", "ampersand", "&", "show only lines that match", LOG),
    Key("quit", "q,ctrl+c", "q", "detach, stop, kill or stay", LEAVE),
)

BY_ID = {key.id: key for key in KEYS}
SCREENS = ("nodes", "jobs", "hosts", "failed", "defs", "log", "plots")
