"""Messages between a node and its extraction processes: typed structs, never pickles.

A process that ran hostile input is not trusted: an answer of any unexpected form is `InvalidAnswer`.
"""

import json
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from crawl_engine.extract.documents.json_value import make_encodable
from crawl_engine.extract.select.selection import SelectionResult
from crawl_engine.model.record import Count
from crawl_engine.node.extraction.result import MAX_INTEGER, PageResult, SitemapResult
from crawl_engine.node.rules import decode_parts
from crawl_engine.processes.frames import InvalidAnswer

MAX_KNOWN_DEFS = 8
"""Versions of defs that a process keeps. It drops the oldest one first, and the node keeps the same count."""

FailureKind = Literal["unsupported", "unreadable", "memory", "selector", "step", "internal", "unavailable"]


class Failure(Struct, frozen=True, kw_only=True, tag="failure"):
    """Why a document could not be worked; the process itself is alive."""

    kind: FailureKind
    reason: str
    unit: Count | None = None
    """The unit in whose plugin code it happened, by index in the task."""
    step: Count = 0
    """That step's index in its chain."""


class NodeCallRequest(Struct, frozen=True, kw_only=True, tag="call"):
    """A question of plugin code to the node, in the middle of a page."""

    call: str
    key: str
    value: bytes
    """JSON."""

    @classmethod
    def from_value(cls, call: str, key: str, value: Any) -> "NodeCallRequest":
        try:
            text = msgspec.json.encode(value)
        except UnicodeEncodeError:
            text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode("utf-8", "replace")
        return cls(call=call, key=key, value=text)


class RobotsAnswer(Struct, frozen=True, kw_only=True, tag="robots"):
    """The Crawl-delay and the decisions of a robots.txt."""

    crawl_delay: Annotated[float, Meta(ge=0)]
    rules: tuple[str | None, ...]
    """By URL, the rule that disallows it; None: it is allowed."""


Result = PageResult | SitemapResult | RobotsAnswer | SelectionResult
Answer = Result | Failure | NodeCallRequest
_decoder: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer, dec_hook=decode_parts)


def encode(answer: Answer) -> bytes:
    """A message. Lone surrogates, which cannot be sent, become `?`."""
    try:
        return msgspec.msgpack.encode(answer)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(answer, builtin_types=(bytes, memoryview))
        return msgspec.msgpack.encode(make_encodable(plain))


def decode_answer(message: bytes | memoryview, max_bytes: int = MAX_INTEGER) -> Answer:
    """The answer of a message that may unpack to `max_bytes`. Raises only InvalidAnswer."""
    try:
        answer = _decoder.decode(message)
        if isinstance(answer, PageResult | SitemapResult):
            answer.check(max_bytes)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
        raise InvalidAnswer(f"{type(error).__name__}: {error}"[:200]) from error
    if isinstance(answer, Failure) and answer.kind == "unavailable":
        raise InvalidAnswer("a process that answers is available")
    return answer
