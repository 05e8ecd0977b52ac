"""Messages between a node and its loader processes.

A process that runs plugin code is not trusted: an answer of any unexpected form is `InvalidAnswer`.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.http.response import check_headers, check_status
from crawl_engine.processes.frames import InvalidAnswer

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
