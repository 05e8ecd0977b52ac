"""Reads lists of URLs, one per line, from a file or standard input."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from engine.errors import UsageError

_CREDENTIALS = re.compile(r"[^/:]*:.*@", re.DOTALL)
"""What stands before `@` in a path that is a mistyped URL."""


class ListUnreadable(UsageError):
    """The system refused to open or read a list; it may succeed later."""


def read_urls(path: str) -> Iterator[tuple[int, str]]:
    """Line number and URL of a file's lines, or of stdin for `-`; skips blank lines and lines that start with #.

    Raises ListUnreadable.
    """
    try:
        with sys.stdin if path == "-" else Path(path).open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                text = line.strip().removeprefix("\ufeff")
                if text and not text.startswith("#"):
                    yield number, text
    except OSError as error:
        text = f"{shown_path(path)}: {error.strerror}"
        raise ListUnreadable(text, "Check the path of the list and its permissions.") from error


def shown_path(path: str) -> str:
    """The path of a list for messages: relative to the current folder if it is in it, without credentials."""
    shown = Path(path)
    return _CREDENTIALS.sub("…@", str(shown.relative_to(Path.cwd()) if shown.is_relative_to(Path.cwd()) else shown))
