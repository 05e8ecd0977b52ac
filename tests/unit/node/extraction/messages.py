"""Answers of extraction processes as bytes: as they are sent, changed, and read back."""

from typing import Any

import msgspec
from msgspec.structs import replace

from crawl_engine.model.record import ExtractedLink
from crawl_engine.node.extraction import wire
from crawl_engine.node.extraction.result import LinkColumns, PageResult
from crawl_engine.node.extraction.task import SHOWN_REJECTIONS


def message_of(answer: wire.Answer, **limits: int) -> bytes:
    """The bytes of an answer; a page is packed as a process packs it."""
    if isinstance(answer, PageResult):
        answer = replace(answer)
        answer.pack(SHOWN_REJECTIONS, **limits)
    return wire.encode(answer)


def read_back(page: PageResult) -> PageResult:
    """The page as the node reads it."""
    answer = wire.decode_answer(message_of(page))
    assert isinstance(answer, PageResult)
    return answer


def columns(page: PageResult) -> LinkColumns:
    assert isinstance(page.links, LinkColumns)
    return page.links


def with_links(*links: ExtractedLink) -> PageResult:
    return PageResult(page_kind="html", links=links)


def fields_of(answer: wire.Answer) -> dict[str, Any]:
    """What a message says, as a forger sees it."""
    fields: dict[str, Any] = msgspec.msgpack.decode(message_of(answer))
    return fields


def changed(answer: wire.Answer, **change: Any) -> bytes:
    """The message of an answer with other fields."""
    return msgspec.msgpack.encode(fields_of(answer) | change)
