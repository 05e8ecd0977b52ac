"""Writes the table `document_links`: the links of pages whose rows later jobs may copy."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

import orjson
import zstandard

from engine.model.job import link_key
from engine.model.record import ExtractedLink
from engine.store.db.connector import Database

MAX_LINKS = 2_000
"""Of a page with more, none are kept: it is read again."""
_ADD = "INSERT INTO document_links (document, context, links) {values} ON CONFLICT DO UPDATE SET links = excluded.links"
_GET = "SELECT links FROM document_links WHERE document = ? AND context = ?"
_rule_of = attrgetter("group", "priority", "max_depth", "may_leave_host")


def encode(links: Sequence[ExtractedLink], compressor: zstandard.ZstdCompressor) -> bytes:
    """The links of a page as they are stored; 30 links take 200 bytes."""
    if not links:
        return b""
    runs = [(*rule, [link.url for link in run]) for rule, run in groupby(links, _rule_of)]
    return compressor.compress(orjson.dumps(runs))


def add(db: Database, pages: Sequence[tuple[int, bytes, bytes]]) -> None:
    """Keep the links of pages: document, context, and the links as encoded."""
    db.execute_values(_ADD, pages)


def get(db: Database, document: int, context: bytes) -> list[ExtractedLink] | None:
    """The links of a page in that context; None: they are not kept."""
    frame = db.value(_GET, (document, context))
    if not frame:
        return None if frame is None else []
    runs = orjson.loads(zstandard.ZstdDecompressor().decompress(frame))
    return [
        ExtractedLink(url, group, priority, max_depth, link_key(group, url), may_leave_host)
        for group, priority, max_depth, may_leave_host, urls in runs
        for url in urls
    ]
