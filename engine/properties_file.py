"""Reads a Java properties file: its entries, each with its place."""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from engine.errors import UsageError

_SEPARATOR = re.compile(r"[=:\s]")
_LINE_END = re.compile(r"\r\n?|\n")
_REMEDY = "Save the file again, as text in UTF-8 or ISO 8859-1."


class Property(Struct, frozen=True, kw_only=True):
    """One entry. Line and column count from 1; the column is that of the value where it stands beside its key."""

    key: str
    value: str
    line: int
    key_column: int
    column: int


def read_properties(path: Path) -> list[Property]:
    """The entries of a file in order; none where there is no file.

    Raises UsageError on a file that cannot be read or is damaged, such as one that is being saved.
    """
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "Fix the file, or delete it.") from error
    text = _decode(content)
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise UsageError(f"{path}:{line}:1: not text: a NUL byte", _REMEDY)
    return list(_parse(path, text))


def _decode(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("iso-8859-1")  # the encoding of the format; it decodes any bytes


def _parse(path: Path, text: str) -> Iterator[Property]:
    from javaproperties import InvalidUEscapeError, KeyValue, parse  # most commands read no such file

    line = 1
    try:
        for element in parse(text):
            if isinstance(element, KeyValue):
                yield _locate(path, element.key, element.value, element.source, line)
            line += len(_LINE_END.findall(element.source))
    except InvalidUEscapeError as error:
        rest = _LINE_END.split(text)[line - 1 :]
        offset = next((number for number, each in enumerate(rest) if error.escape in each), 0)
        shown = "".join(letter if letter.isprintable() else "?" for letter in error.escape)
        column = max(0, rest[offset].find(error.escape)) + 1
        raise UsageError(
            f"{path}:{line + offset}:{column}: '{shown}' is no character",
            r"Write \u and four hexadecimal digits, or \\ for a backslash.",
        ) from None


def _locate(path: Path, key: str, value: str, source: str, line: int) -> Property:
    """An entry with its place. Raises UsageError where the file ends or breaks off in it."""
    lines = _LINE_END.split(source)
    key_column = len(lines[0]) - len(lines[0].lstrip(" \t\f")) + 1
    if not value and not _SEPARATOR.search(source.strip()):
        raise UsageError(f"{path}:{line}:{key_column}: {key[:60]!r} has no value", "Write KEY=VALUE, or remove it.")
    if (len(source) - len(source.rstrip("\\"))) % 2:
        raise UsageError(
            f"{path}:{line + len(lines) - 1}:{len(lines[-1])}: the file ends in the middle of {key[:60]!r}",
            "Save the file again, or remove the backslash at its end.",
        )
    position = lines[0].find(value, key_column - 1 + len(key)) if value else -1
    return Property(
        key=key,
        value=value.strip(),
        line=line,
        key_column=key_column,
        column=position + 1 if position >= 0 else key_column,
    )
