"""Reads a sitemap: its entries and the sitemaps it names become jobs of the locator's group."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import chain

from engine import urls
from engine.fetch.byte_budget import BodyShare
from engine.fetch.decompress import open_decompressor
from engine.model.job import JobKind, LeasedJob
from engine.model.job_key import link_key, locator_key
from engine.node.lines import as_text, cut_in_pieces, take_first
from engine.node.page_extractor import PageExtractor, SitemapUrls
from engine.store.pages.body import Body
from engine.store.transactions.outcome import ChildJob

_GZIP_MAGIC = b"\x1f\x8b"
_MAX_DEPTH = 4
"""Levels of sitemaps that name sitemaps."""
_ENTRIES_PER_PIECE = 1_000
"""Entries turned into jobs at once; pieces after the first by the thread that commits them. About 8 ms."""
_UNPACKED_PER_STEP = 1_000_000
"""Bytes unpacked before other coroutines have their turn: a few ms."""


@dataclass(frozen=True, slots=True)
class SitemapChildren:
    """The jobs that a sitemap makes."""

    first: tuple[ChildJob, ...]
    later: Iterator[tuple[ChildJob, ...]] | None
    """Further ones in pieces, made when they are committed."""
    entries: int
    """Their number; where they are many, that of the entries, of which some may make no job."""
    dropped: int
    """Entries beyond the protocol's limit."""
    share: BodyShare | None
    """What the URLs hold of the budget of answers, to be released when they are committed."""


class SitemapHandler:
    """One for each node."""

    def __init__(self, max_body: int, page_extractor: PageExtractor) -> None:
        self._max_body = max_body
        self._page_extractor = page_extractor

    async def list_children(self, job: LeasedJob, url: str, body: bytes, share: BodyShare) -> SitemapChildren:
        """The jobs that a sitemap at that URL makes. `share` grows with what is unpacked.

        Raises FetchFailed where it cannot be decompressed, and UnreadablePage.
        """
        if body.startswith(_GZIP_MAGIC):
            body = await self._unpack(body, share)
        content = Body(body)
        del body  # a large one is compressed while it is read
        sitemap = await self._page_extractor.read_sitemap(content)
        try:
            first, later = take_first(_pieces(job, url, sitemap))
        except BaseException:
            if sitemap.share is not None:
                sitemap.share.release()
            raise
        entries = len(first) if later is None else len(sitemap.pages) + len(sitemap.sitemaps)
        return SitemapChildren(first, later, entries, sitemap.dropped, sitemap.share)

    async def _unpack(self, body: bytes, share: BodyShare) -> bytes:
        decompressor = open_decompressor("gzip", self._max_body)
        assert decompressor is not None
        unpacked, step = BytesIO(), 0
        for piece in decompressor.feed(body):
            await share.grow(len(piece))
            unpacked.write(piece)
            step += len(piece)
            if step >= _UNPACKED_PER_STEP:
                step = 0
                await asyncio.sleep(0)
        decompressor.finish()
        share.finish_reading()
        return unpacked.getvalue()


def _pieces(job: LeasedJob, url: str, sitemap: SitemapUrls) -> Iterator[tuple[ChildJob, ...]]:
    """The jobs of the entries, in pieces that are not empty."""
    nested = sitemap.sitemaps if job.depth < _MAX_DEPTH else ()
    entries = chain(((page, JobKind.PAGE) for page in sitemap.pages), ((other, JobKind.SITEMAP) for other in nested))
    for piece in cut_in_pieces(entries, lambda entry: len(entry[0]), _ENTRIES_PER_PIECE):
        children: dict[bytes, ChildJob] = {}
        for written, kind in piece:
            target = _join(url, as_text(written))
            if target is None:
                continue
            if kind is JobKind.PAGE:
                key, depth = link_key(job.group, target), 0
            else:
                key, depth = locator_key(job.group, job.locator, target, kind, None), job.depth + 1
            children[key] = ChildJob(
                job.group, urls.host_key(target), urls.origin(target), target, depth, job.priority, key, kind
            )
        if children:
            yield tuple(children.values())


def _join(base: str, written: str) -> str | None:
    """The URL of an entry, without credentials: the site's own are neither stored nor sent."""
    target = urls.join(base, written)
    return None if target is None else urls.without_credentials(target)
