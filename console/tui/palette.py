"""What the palette offers: keys by their names, and commands on the nodes, hosts, sequences and defs of now."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from console.tui.bindings import ACT, KEYS, SCREENS
from console.tui.screens.palette import Choice
from console.tui.state.filters import of_host, of_state
from console.tui.themes import THEMES

_HOSTS = 200
_OFFERED = ("help", "freeze", "zoom", "export", "theme", "filter")
_ENDED = ("TERMINATED", "DEAD", "FAILED")


def choices(app: Any) -> list[Choice]:
    """All that can be done now."""
    found = [*_screens(app), *_keys(app), *_themes(app)]
    if app.look is not None:
        found += [*_looks(app), *([] if app.setup.read_only else [*_nodes(app), *_sequences(app), *_hosts(app)])]
    return found


def _screens(app: Any) -> Iterator[Choice]:
    for number, name in enumerate(SCREENS, 1):
        yield Choice(f"go {name}", f"screen {number}", partial(app.go, name))


def _keys(app: Any) -> Iterator[Choice]:
    for key in KEYS:
        offered = key.group in (ACT, "Leave") or key.id in _OFFERED
        if offered and not (app.setup.read_only and key.group == ACT):
            yield Choice(key.id.replace("_", " "), f"{key.does}  ({key.shown})", partial(app.do, key.id))


def _themes(app: Any) -> Iterator[Choice]:
    for name in THEMES:
        yield Choice(f"theme {name}", "colours", partial(app.use_theme, name))


def _looks(app: Any) -> Iterator[Choice]:
    from console.tui.screens.summary import EndingView

    assert app.look is not None
    yield Choice("summary", "totals, files, failures by reason", lambda: app.push(EndingView()))
    for state in ("ready", "taken", "done", "failed", "skipped", "incomplete"):
        yield Choice(f"jobs {state}", f"jobs with state:{state}", partial(app.push_jobs, of_state(state)))
    for host in app.look.snapshot.hosts[:_HOSTS]:
        yield Choice(f"jobs on {host['host']}", "all of them", partial(app.push_jobs, of_host(host["host"])))
    if app.accepted is not None:
        for path in app.accepted.definitions.files:
            yield Choice(f"open def {path}", "in $EDITOR", partial(app.edit_named, path))


def _nodes(app: Any) -> Iterator[Choice]:
    assert app.look is not None
    for node in app.look.snapshot.nodes:
        if node["state"] not in _ENDED:
            name = node["id"]
            yield Choice(f"drain {name}", "finish what it holds, and end", partial(app.order, "drain", {"node": name}))
            yield Choice(f"restart {name}", "another in its place", partial(app.order, "restart", {"node": name}))
            yield Choice(f"kill {name}", "at once; asks first", partial(app.confirm_kill, [name]))


def _sequences(app: Any) -> Iterator[Choice]:
    assert app.look is not None
    for sequence in app.look.snapshot.sequences[:_HOSTS]:
        verb = "resume" if sequence["paused"] else "pause"
        what = f"{sequence['group']}@{sequence['host']}"
        yield Choice(f"{verb} {what}", "a sequence's intake", partial(app.order, verb, {"sequence": sequence["id"]}))


def _hosts(app: Any) -> Iterator[Choice]:
    assert app.look is not None
    yield Choice("retry failed", "all of them; asks first", lambda: app.retry([], of_state("failed")))
    for host in app.look.snapshot.hosts[:_HOSTS]:
        wanted = of_host(host["host"], "failed")
        yield Choice(f"retry failed on host {host['host']}", "asks first", partial(app.retry, [], wanted))
