"""The rules by which an interrupted download continues: HTTP ranges and validators (RFC 9110). Pure functions."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple

_STRONG_TAG = re.compile(r'"[\x21\x23-\x7e]{1,200}"')
_DATE_SECONDS = 60.0
"""A file that changed less than this before its answer may have changed again in the same second."""
_CONTENT_RANGE = re.compile(r"bytes\s+([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", re.IGNORECASE)


class ContentRange(NamedTuple):
    """The part of a file that an answer has."""

    start: int
    end: int
    """Of the last byte."""
    total: int | None


def parse_content_range(value: str) -> ContentRange | None:
    """The value of a Content-Range; None: it is not valid."""
    match = _CONTENT_RANGE.fullmatch(value.strip())
    if match is None:
        return None
    start, end, total = int(match[1]), int(match[2]), None if match[3] == "*" else int(match[3])
    valid = start <= end and (total is None or end < total)
    return ContentRange(start, end, total) if valid else None


def find_validator(headers: Mapping[str, str]) -> str | None:
    """What tells whether the file is still the same, for `If-Range`; None: nothing does, and it starts again.

    A strong ETag; else a Last-Modified that lies well before the answer. `headers`: names in lower case.
    """
    tag = headers.get("etag", "").strip()
    if tag:
        return tag if _STRONG_TAG.fullmatch(tag) else None
    modified = headers.get("last-modified", "").strip()
    try:
        age = (parsedate_to_datetime(headers.get("date", "")) - parsedate_to_datetime(modified)).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return modified if age >= _DATE_SECONDS and modified.isascii() and modified.isprintable() else None


def may_continue(headers: Mapping[str, str]) -> bool:
    """Whether the server may send the rest of this answer later: not where it says no, or encodes the content."""
    encoding = headers.get("content-encoding", "").strip().lower()
    return headers.get("accept-ranges", "").strip().lower() != "none" and encoding in ("", "identity")


def declared_length(headers: Mapping[str, str]) -> int | None:
    """The bytes of the body by Content-Length; None: unknown."""
    text = headers.get("content-length", "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
