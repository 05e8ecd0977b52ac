"""Reads heads of HTTP/1 that strict parsers refuse, as far as RFC 9112 lets a client read them."""

import re

_STATUS_LINE = re.compile(rb"\s*HTTP/\d(?:\.\d)?[ \t]+([1-9]\d\d)\b[^\n]*\n", re.IGNORECASE)
"""Gateways write `HTTP/2 200`."""
_FOLD = re.compile(rb"\r?\n[ \t]+")
_FIELD = re.compile(rb"^([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*([^\r\n]*)", re.MULTILINE)
_HEAD_END = re.compile(rb"\n\r?\n")
_SWITCHING_PROTOCOLS = b"101"


def read_loosely(start: bytes) -> bytes | None:
    """The start of a response with a strict head in place of its own; None: its head has not arrived completely.

    Lines that are no fields are left out, interim responses too; equal lengths become one, and chunks have no length.
    The bytes as they are where that does not help, for lengths that differ above all. The caller closes the connection
    behind the response: another reader may find another end of it.
    """
    rest = start
    while True:
        status = _STATUS_LINE.match(rest)
        if status is None:
            is_short = b"\n" not in rest.lstrip() and rest.lstrip()[:5].upper() == b"HTTP/"
            return None if is_short else start
        end = _HEAD_END.search(rest, status.end() - 1)
        if end is None:
            return None
        if not status[1].startswith(b"1") or status[1] == _SWITCHING_PROTOCOLS:
            break
        rest = rest[end.end() :]
    lines = rest[status.end() : end.end()]
    fields = _merge_lengths(_FIELD.findall(_FOLD.sub(b" ", lines)))
    if fields is None or b"\0" in lines:
        return start
    head = b"".join([b"%b: %b\r\n" % field for field in fields])
    return b"HTTP/1.1 %b\r\n%b\r\n%b" % (status[1], head, rest[end.end() :])


def _merge_lengths(fields: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]] | None:
    """The fields with one length at most; None: they name several (RFC 9112, 6.3)."""
    encodings = [value.lower().rstrip() for name, value in fields if name.lower() == b"transfer-encoding"]
    lengths = {
        part.strip() for name, value in fields if name.lower() == b"content-length" for part in value.split(b",")
    }
    merged = [field for field in fields if field[0].lower() != b"content-length"]
    if encodings and encodings[-1].endswith(b"chunked"):
        return merged
    if len(lengths) > 1:
        return None
    return [*merged, *((b"Content-Length", length) for length in lengths)]
