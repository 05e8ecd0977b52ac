"""Reads lists of URLs, one per line, from a file or standard input."""

import sys
from collections.abc import Iterator
from pathlib import Path

from engine.errors import UsageError


def read_urls(path: str) -> Iterator[str]:
    """The URLs of a file, or of stdin for `-`; skips blank lines and lines that start with #. Raises UsageError."""
    try:
        with sys.stdin if path == "-" else Path(path).open(encoding="utf-8", errors="replace") as file:
            for line in file:
                text = line.strip().removeprefix("\ufeff")
                if text and not text.startswith("#"):
                    yield text
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "Fix the `from` of the locator, or the file.") from error
