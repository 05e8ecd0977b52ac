"""Finds the `file.yml:line` that a message about a def names."""

import re
from pathlib import Path

_FILE_LINE = re.compile(r"(\S+\.ya?ml):(\d+)")


def find_file_line(text: str) -> tuple[Path, int] | None:
    """Return the first file and line in a text."""
    match = _FILE_LINE.search(text)
    return (Path(match[1]), int(match[2])) if match else None
