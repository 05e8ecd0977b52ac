"""Lines to stdout, words to stderr: many lines at a time, and none that a narrow encoding could stop."""

import contextlib
import os
import sys
from collections.abc import Iterable
from typing import IO


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout, at once. Raises BrokenPipeError where nobody reads on."""
    text = "".join(f"{line}\n" for line in lines)
    if text:
        sys.stdout.write(_escape_unencodable(text, sys.stdout.encoding))
        sys.stdout.flush()


def write_stderr(text: str) -> None:
    """Say something about what was written, on stderr."""
    with contextlib.suppress(OSError):
        sys.stderr.write(_escape_unencodable(f"{text}\n", sys.stderr.encoding))
        sys.stderr.flush()


def redirect_to_devnull(stream: IO[str]) -> None:
    """Nobody reads a stream any more: what is still to be written to it goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _escape_unencodable(text: str, encoding: str | None) -> str:
    """The text with what the encoding lacks as escapes."""
    name = encoding or "utf-8"
    return text.encode(name, "backslashreplace").decode(name)
