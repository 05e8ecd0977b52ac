"""Messages between a node and its loader processes.

A process that runs plugin code is not trusted: an answer of any unexpected form is `InvalidAnswer`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from engine.processes.frames import InvalidAnswer

MAX_HEADERS = 512
MAX_HEADER_BYTES = 64 * 1024
"""Bytes of one header. Both limits are those of the built-in client."""
MAX_ALL_HEADERS_BYTES = 256 * 1024
MAX_URL_CHARACTERS = 64 * 1024
OTHER_BYTES = 4_000_000
"""Bytes of an answer besides the body, at most: JSON may need six bytes for one."""

FailureKind = Literal["error", "step", "not-applicable", "too-large", "bad-response", "unavailable"]
_MAX_WARNINGS = 100


class LoaderWarning(NamedTuple):
    """What a loader reported of a page, without failing."""

    text: str
    code: str


class Ready(Struct, frozen=True, kw_only=True, tag="ready"):
    """The loader's class has been created."""


class Loaded(Struct, frozen=True, kw_only=True, tag="loaded"):
    """A response of a plugin loader."""

    url: str | None
    """None: the URL of the request."""
    status: int
    headers: tuple[tuple[str, str], ...]
    """With names in lower case."""
    warnings: tuple[LoaderWarning, ...]
    body: bytes = b""


class NotLoaded(Struct, frozen=True, kw_only=True, tag="failed"):
    """The reason for a missing response; the process is alive."""

    kind: FailureKind
    text: str
    code: str = ""
    """The code of a `StepError`, else the name of the error."""


Answer = Ready | Loaded | NotLoaded
_decoder: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def encode_task(
    *, url: str, method: str, headers: Mapping[str, str], body: bytes | None, context: Mapping[str, Any], max_body: int
) -> tuple[Mapping[str, Any], bytes]:
    """The question that makes a process load a page; its response has at most `max_body` bytes."""
    header = {
        "kind": "load", "url": url, "method": method, "headers": {**headers}, "has_body": body is not None,
        "context": {**context}, "max_body": max_body,
    }  # fmt: skip
    return header, body or b""


def encode_answer(answer: Answer) -> tuple[bytes, bytes]:
    """Header and bytes of an answer."""
    if isinstance(answer, Loaded):
        header = replace(answer, body=b"", warnings=answer.warnings[:_MAX_WARNINGS])
        return msgspec.json.encode(header), answer.body
    return msgspec.json.encode(answer), b""


def decode_answer(header: memoryview, body: memoryview, max_body: int) -> Answer:
    """The answer of a message. Raises only InvalidAnswer."""
    try:
        answer = _decoder.decode(header)
        if not isinstance(answer, Loaded):
            return answer
        if len(body) > max_body:
            raise InvalidAnswer("a body over the limit")
        check_status(answer.status)
        return replace(answer, headers=check_headers(answer.headers), body=bytes(body))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidAnswer(f"{type(error).__name__}: {error}"[:200]) from error


def check_status(status: Any) -> int:
    """The status, if it is that of a final response. Raises ValueError."""
    if type(status) is not int or not 200 <= status <= 599:
        raise ValueError(f"status must be a number from 200 to 599, not {status!r:.40}")
    return status


def check_headers(headers: Sequence[tuple[Any, Any]]) -> tuple[tuple[str, str], ...]:
    """The headers, names in lower case, if a server could have sent them. Raises ValueError."""
    if len(headers) > MAX_HEADERS:
        raise ValueError(f"more than {MAX_HEADERS} headers")
    for name, value in headers:
        if type(name) is not str or type(value) is not str:
            raise ValueError("the names and values of headers must be texts")
        if not name or not name.isascii() or not name.isprintable() or any(char in name for char in ' :"'):
            raise ValueError(f"{name!r:.60} cannot be the name of a header")
        if len(name) + len(value) > MAX_HEADER_BYTES:
            raise ValueError(f"header {name!r:.60} has more than {MAX_HEADER_BYTES:,} bytes")
        if any(char in value for char in "\r\n\0"):
            raise ValueError(f"header {name!r:.60} contains a line feed")
    if sum(len(name) + len(value) for name, value in headers) > MAX_ALL_HEADERS_BYTES:
        raise ValueError(f"the headers have more than {MAX_ALL_HEADERS_BYTES:,} bytes")
    return tuple([(name.lower(), value) for name, value in headers])
