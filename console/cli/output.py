"""Writes lines to stdout and messages to stderr, in any encoding, to readers that may have gone."""

import contextlib
import os
import sys
from collections.abc import Iterable
from typing import IO


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout and flush. Raises BrokenPipeError where the reader is gone."""
    text = "".join(f"{line}\n" for line in lines)
    if text:
        sys.stdout.write(_escape_unencodable(text, sys.stdout.encoding))
        sys.stdout.flush()


def write_stderr(text: str) -> None:
    """Write a message to stderr; a closed stderr is ignored."""
    with contextlib.suppress(OSError):
        sys.stderr.write(_escape_unencodable(f"{text}\n", sys.stderr.encoding))
        sys.stderr.flush()


def redirect_to_devnull(stream: IO[str]) -> None:
    """Discard what is still to be written to a stream whose reader is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _escape_unencodable(text: str, encoding: str | None) -> str:
    """The text with escapes for what the encoding lacks."""
    name = encoding or "utf-8"
    return text.encode(name, "backslashreplace").decode(name)
