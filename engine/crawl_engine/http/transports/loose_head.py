"""Reads heads of HTTP/1 that strict parsers refuse, as far as RFC 9112 lets a client read them."""

import re

_MAX_BYTES = 64 * 1024
_BEGIN = re.compile(rb"\s*(?:$|H(?:$|T(?:$|T(?:$|P(?:$|/)))))", re.IGNORECASE)
_STATUS_LINE = re.compile(rb"\s*HTTP/\d(?:\.\d)?[ \t]+([1-9]\d\d)\b[^\n]*\n", re.IGNORECASE)
"""Gateways write `HTTP/2 200`."""
_FOLD = re.compile(rb"\r?\n[ \t]+")
_NAME = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_FIELD = re.compile(rb"^(%b)[ \t]*:[ \t]*([^\r\n]*)" % _NAME, re.MULTILINE)
_STRICT = re.compile(rb"HTTP/1\.[01] [1-9]\d\d(?: [^\r\n]*)?\r\n(?:%b:[^\r\n]*\r\n(?:[ \t][^\r\n]*\r\n)*)*\r\n" % _NAME)
_HEAD_END = re.compile(rb"\n\r?\n")
_SWITCHING_PROTOCOLS = b"101"


def is_strict(start: bytes) -> bool:
    """Whether a response begins with a complete head that any parser reads in one way, lengths apart."""
    return _STRICT.match(start) is not None


def read_loosely(start: bytes, new: int) -> bytes | None:
    """The start of a response with a strict head in place of its own; None: its head has not arrived completely.

    Lines that are no fields are left out, interim responses too; equal lengths become one, and chunks have no length.
    The bytes as they are where that does not help, for lengths that differ above all. The caller closes the connection
    behind the response: another reader may find another end of it. `new`: the bytes at the end that came last.
    """
    if len(start) > _MAX_BYTES or _BEGIN.match(start) is None:
        return start
    if _HEAD_END.search(start, max(0, len(start) - new - len(b"\n\r"))) is None:
        return None
    while (status := _STATUS_LINE.match(start)) is not None:
        end = _HEAD_END.search(start, status.end() - 1)
        if end is None:
            return None
        rest = start[end.end() :]
        if status[1].startswith(b"1") and status[1] != _SWITCHING_PROTOCOLS:
            start = rest
            continue
        lines = start[status.end() : end.end()]
        fields = None if b"\0" in lines else _merge_lengths(_FIELD.findall(_FOLD.sub(b" ", lines)))
        if fields is None:
            return start
        return b"HTTP/1.1 %b\r\n%b\r\n%b" % (status[1], b"".join([b"%b: %b\r\n" % field for field in fields]), rest)
    return None if _BEGIN.fullmatch(start) else start


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
