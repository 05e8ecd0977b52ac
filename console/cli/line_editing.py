"""Reads lines from a terminal, with editing, completion and history where Python has readline."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

_HISTORY_LENGTH = 1000
_USERINFO = re.compile(r"(https?:[/\\]+)[^/\\?#\s]*@", re.IGNORECASE)


def read_lines(prompt: Callable[[], str], words: Sequence[str]) -> Iterator[str]:
    """Yield typed lines; `words` are completions of a whole line. Ctrl-C clears the line, Ctrl-D ends."""
    save_history = _enable_editing(words)
    try:
        while True:
            try:
                yield input(prompt())
            except KeyboardInterrupt:
                click.echo()
            except EOFError:
                click.echo()
                return
    finally:
        save_history()


def _enable_editing(words: Sequence[str]) -> Callable[[], None]:
    """Enable line editing; returns a function that saves the history."""
    try:
        import readline
    except ImportError:
        return lambda: None
    state = Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser())
    path = state / "crawl-console" / "shell_history"
    try:
        readline.read_history_file(path)
    except OSError:
        pass

    def complete(text: str, number: int) -> str | None:
        return next((w for at, w in enumerate(w for w in words if w.startswith(text)) if at == number), None)

    def save() -> None:
        try:
            for index in range(readline.get_current_history_length()):
                readline.replace_history_item(index, _without_passwords(readline.get_history_item(index + 1)))
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            readline.set_history_length(_HISTORY_LENGTH)
            readline.write_history_file(path)
            path.chmod(0o600)
        except OSError:
            pass

    readline.set_completer(complete)
    readline.set_completer_delims("")
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
    return save


def _without_passwords(line: str) -> str:
    """The line to save: its http URLs without `user:password@`."""
    return _USERINFO.sub(r"\1", line)
