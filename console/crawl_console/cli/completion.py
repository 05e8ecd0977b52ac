"""Completes words of the command line for a shell, by click; names come from the data dir."""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from crawl_engine.errors import CrawlError

if TYPE_CHECKING:
    from crawl_engine.store.read.known_names import NameKind

VARIABLE = "_CRAWL_CONSOLE_COMPLETE"
"""The environment variable in which a shell asks for completions."""
SHELLS = ("bash", "zsh", "fish")
_PROGRAM = "crawl-console"
_BUSY_SECONDS = 0.1
_HELP_FLAGS = ("-h", "--help", "-V", "--version")


def complete(group: click.Command) -> int:
    """Print the completions that a shell asks for by the environment; returns the exit code. Raises nothing."""
    shell, _, instruction = os.environ[VARIABLE].partition("_")
    if shell not in SHELLS or instruction != "complete":
        return 1
    try:
        click.echo(_completer(group, shell).complete())
    except (CrawlError, click.ClickException, OSError, ValueError, KeyError):  # a line that nobody can complete
        return 1
    return 0


def read_script(group: click.Command, shell: str) -> str:
    """The script that a shell runs to complete command lines."""
    return _completer(group, shell).source()


def list_names(kind: "NameKind", data: Path, start: str) -> list[str]:
    """The names of that kind in a data dir that begin with a text; empty if it cannot be read now."""
    from crawl_engine.store.db.connector import connect_for_reading
    from crawl_engine.store.db.data_dir import has_store
    from crawl_engine.store.db.file_header import CRAWL
    from crawl_engine.store.read.known_names import list_known_names

    path = data / CRAWL
    try:
        if not has_store(data):
            return []
        db = connect_for_reading(path, busy_seconds=_BUSY_SECONDS)
        with contextlib.closing(db):
            return list_known_names(db, kind, start)
    except (CrawlError, OSError, ValueError):
        return []


def _completer(group: click.Command, shell: str) -> ShellComplete:
    found = get_completion_class(shell)
    assert found is not None, shell

    class Completer(found):  # type: ignore[valid-type, misc]
        """Completes a line without a command as one of `run`, which is the default."""

        def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
            if args[:1] == ["help"]:
                args = args[1:]
            elif (args[0] if args else incomplete).startswith("-") and not set(_HELP_FLAGS) & set(args):
                args = ["run", *args]
            items: list[CompletionItem[str]] = super().get_completions(args, incomplete)
            return items

    completer: ShellComplete = Completer(group, {}, _PROGRAM, VARIABLE)
    return completer
