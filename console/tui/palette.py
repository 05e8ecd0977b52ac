"""What the palette offers: keys by their names, and commands on the nodes, hosts, sequences and defs of now."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from console.tui.bindings import ACT, KEYS, SCREEN_NAMES
from console.tui.screens.palette import PaletteCommand
from console.tui.state.filters import host_filter, state_filter
from console.tui.themes import THEMES

_MAX_HOSTS = 200
_OFFERED_KEYS = ("help", "freeze", "zoom", "export", "theme", "filter")
_ENDED = ("TERMINATED", "DEAD", "FAILED")


def palette_commands(app: Any) -> list[PaletteCommand]:
    """All that can be done now."""
    found = [*_screen_commands(app), *_key_commands(app), *_theme_commands(app)]
    if app.last_poll is not None:
        found += [
            *_view_commands(app),
            *([] if app.options.read_only else [*_node_commands(app), *_sequence_commands(app), *_host_commands(app)]),
        ]
    return found


def _screen_commands(app: Any) -> Iterator[PaletteCommand]:
    for number, name in enumerate(SCREEN_NAMES, 1):
        yield PaletteCommand(f"go {name}", f"screen {number}", partial(app.switch_to, name))


def _key_commands(app: Any) -> Iterator[PaletteCommand]:
    for key in KEYS:
        offered = key.group in (ACT, "Leave") or key.id in _OFFERED_KEYS
        if offered and not (app.options.read_only and key.group == ACT):
            yield PaletteCommand(
                key.id.replace("_", " "), f"{key.description}  ({key.label})", partial(app.run_key, key.id)
            )


def _theme_commands(app: Any) -> Iterator[PaletteCommand]:
    for name in THEMES:
        yield PaletteCommand(f"theme {name}", "colours", partial(app.use_theme, name))


def _view_commands(app: Any) -> Iterator[PaletteCommand]:
    from console.tui.screens.summary import SummaryView

    assert app.last_poll is not None
    yield PaletteCommand("summary", "totals, files, failures by reason", lambda: app.push_view(SummaryView()))
    for state in ("ready", "taken", "done", "failed", "skipped", "incomplete"):
        yield PaletteCommand(
            f"jobs {state}", f"jobs with state:{state}", partial(app.push_jobs_view, state_filter(state))
        )
    for host in app.last_poll.snapshot.hosts[:_MAX_HOSTS]:
        yield PaletteCommand(f"jobs on {host.host}", "all of them", partial(app.push_jobs_view, host_filter(host.host)))
    if app.accepted_defs is not None:
        for path in app.accepted_defs.definitions.files:
            yield PaletteCommand(f"open def {path}", "in $EDITOR", partial(app.edit_def, path))


def _node_commands(app: Any) -> Iterator[PaletteCommand]:
    assert app.last_poll is not None
    for node in app.last_poll.snapshot.nodes:
        if node.state not in _ENDED:
            name = node.id
            yield PaletteCommand(
                f"drain {name}", "finish what it holds, and end", partial(app.send_command, "drain", {"node": name})
            )
            yield PaletteCommand(
                f"restart {name}", "another in its place", partial(app.send_command, "restart", {"node": name})
            )
            yield PaletteCommand(f"kill {name}", "at once; asks first", partial(app.confirm_kill, [name]))


def _sequence_commands(app: Any) -> Iterator[PaletteCommand]:
    assert app.last_poll is not None
    for sequence in app.last_poll.snapshot.sequences[:_MAX_HOSTS]:
        verb = "resume" if sequence.paused else "pause"
        what = f"{sequence.group}@{sequence.host}"
        yield PaletteCommand(
            f"{verb} {what}", "a sequence's intake", partial(app.send_command, verb, {"sequence": sequence.id})
        )


def _host_commands(app: Any) -> Iterator[PaletteCommand]:
    assert app.last_poll is not None
    yield PaletteCommand("retry failed", "all of them; asks first", lambda: app.retry([], state_filter("failed")))
    for host in app.last_poll.snapshot.hosts[:_MAX_HOSTS]:
        wanted = host_filter(host.host, "failed")
        yield PaletteCommand(f"retry failed on host {host.host}", "asks first", partial(app.retry, [], wanted))
