"""Writes lines to stdout and messages to stderr, in any encoding, to readers that may have gone; asks."""

import codecs
import contextlib
import io
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, BinaryIO, cast

import click

from crawl_console.sanitize import clean
from crawl_engine.errors import UsageError

_TERMINAL_SECONDS, _PLAIN_SECONDS = 0.2, 5.0
"""Seconds between two lines of progress."""


def write_lines(*lines: str) -> None:
    """Write lines to stdout, cleaned, and flush. Raises BrokenPipeError if the reader is gone."""
    text = "".join(f"{clean(line)}\n" for line in lines)
    if text:
        sys.stdout.write(_escape_unencodable(text, sys.stdout.encoding))
        sys.stdout.flush()


def write_json(*values: Any) -> None:
    """Write values to stdout as JSON in UTF-8, one a line, and flush. Raises BrokenPipeError if the reader is gone."""
    import orjson

    sys.stdout.buffer.write(b"".join(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE) for value in values))
    sys.stdout.flush()


def write_stderr(*lines: str) -> None:
    """Write lines to stderr, cleaned; a closed stderr is ignored."""
    text = "".join(f"{clean(line)}\n" for line in lines)
    with contextlib.suppress(OSError):
        sys.stderr.write(_escape_unencodable(text, sys.stderr.encoding))
        sys.stderr.flush()


def confirm(command: str, lines: Sequence[str], *, yes: bool) -> bool:
    """Show on stderr what is to be deleted, and ask; no line, no question.

    Raises UsageError where nobody can be asked, and `--yes` is missing.
    """
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{command}: no terminal to ask on; nothing was deleted", "Add --yes.")
    write_stderr(*lines)
    return yes or not lines or click.confirm("Delete?", err=True)


@contextlib.contextmanager
def show_count(what: str, *, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """A function that adds to a count, `12,000 jobs excluded`, on stderr: in place on a terminal, else every 5 s."""
    in_place = sys.stderr.isatty()
    pause = _TERMINAL_SECONDS if in_place else _PLAIN_SECONDS
    count, next_at = 0, time.monotonic() + pause

    def add(number: int) -> None:
        nonlocal count, next_at
        count += number
        if shown and time.monotonic() >= next_at:
            click.echo(f"\r{count:,} {what}" if in_place else f"{count:,} {what}", err=True, nl=not in_place)
            next_at = time.monotonic() + pause

    yield add
    if shown and in_place:
        click.echo("\r\x1b[K", err=True, nl=False)


@contextlib.contextmanager
def show_wait() -> Iterator[Callable[[str], None]]:
    """A function that shows on a terminal what the command waits for, until the end of the block."""
    in_place = sys.stderr.isatty()

    def show(text: str) -> None:
        if in_place:
            click.echo(f"\r\x1b[K{clean(text)}", err=True, nl=False)

    try:
        yield show
    finally:
        show("")


def open_stdout() -> BinaryIO:
    """Standard output for rows in UTF-8; on a terminal their lines are cleaned."""
    if not sys.stdout.isatty():
        return sys.stdout.buffer
    return cast(BinaryIO, _CleanTerminal(sys.stdout.buffer))


class _CleanTerminal(io.RawIOBase):
    """Takes UTF-8 and cleans its lines."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> int:  # type: ignore[override]
        lines = self._decoder.decode(data).replace("\r\n", "\n").split("\n")
        self._stream.write("\n".join(map(clean, lines)).encode("utf-8", "replace"))
        return len(data)

    def flush(self) -> None:
        self._stream.flush()


def redirect_to_devnull(stream: IO[str]) -> None:
    """Discard pending output of a stream without a reader."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _escape_unencodable(text: str, encoding: str | None) -> str:
    """The text with escapes for characters that the encoding lacks."""
    name = encoding or "utf-8"
    return text.encode(name, "backslashreplace").decode(name)
