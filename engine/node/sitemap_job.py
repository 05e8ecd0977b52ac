"""Reads a sitemap: its entries and the sitemaps it names become jobs of the locator's group."""

import asyncio
from io import BytesIO

from engine import urls
from engine.fetch.byte_budget import BodyShare
from engine.fetch.decompress import open_decompressor
from engine.model.job import JobKind, LeasedJob
from engine.model.job_key import link_key, locator_key
from engine.node.page_extractor import PageExtractor, SitemapUrls
from engine.store.transactions.outcome import ChildJob

_GZIP_MAGIC = b"\x1f\x8b"
_MAX_DEPTH = 4
"""Levels of sitemaps that name sitemaps."""
_ENTRIES_PER_STEP = 1_000
"""Entries turned into jobs before other coroutines have their turn: about 8 ms."""
_UNPACKED_PER_STEP = 1_000_000
"""Bytes unpacked before other coroutines have their turn: a few ms."""


class SitemapHandler:
    """One for each node."""

    def __init__(self, max_body: int, page_extractor: PageExtractor) -> None:
        self._max_body = max_body
        self._page_extractor = page_extractor

    async def list_children(
        self, job: LeasedJob, url: str, body: bytes, share: BodyShare
    ) -> tuple[tuple[ChildJob, ...], int, BodyShare | None]:
        """The jobs that a sitemap at that URL makes, and how many entries it has beyond the protocol's limit.

        `share` grows with what is unpacked. The last value is the share that the jobs' URLs hold; the caller releases
        it. Raises FetchFailed where it cannot be decompressed, and UnreadablePage.
        """
        if body.startswith(_GZIP_MAGIC):
            body = await self._unpack(body, share)
        sitemap = await self._page_extractor.read_sitemap(body)
        try:
            return await self._children(job, url, sitemap), sitemap.dropped, sitemap.share
        except BaseException:
            if sitemap.share is not None:
                sitemap.share.release()
            raise

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

    async def _children(self, job: LeasedJob, url: str, sitemap: SitemapUrls) -> tuple[ChildJob, ...]:
        children: dict[bytes, ChildJob] = {}
        for number, written in enumerate(sitemap.pages, 1):
            if not number % _ENTRIES_PER_STEP:
                await asyncio.sleep(0)
            target = _join(url, written)
            if target is not None:
                key = link_key(job.group, target)
                children[key] = self._child(job, target, 0, key, JobKind.PAGE)
        for number, written in enumerate(sitemap.sitemaps if job.depth < _MAX_DEPTH else (), 1):
            if not number % _ENTRIES_PER_STEP:
                await asyncio.sleep(0)
            target = _join(url, written)
            if target is not None:
                key = locator_key(job.group, job.locator, target, JobKind.SITEMAP, None)
                children[key] = self._child(job, target, job.depth + 1, key, JobKind.SITEMAP)
        return tuple(children.values())

    def _child(self, job: LeasedJob, url: str, depth: int, key: bytes, kind: JobKind) -> ChildJob:
        return ChildJob(job.group, urls.host_key(url), urls.origin(url), url, depth, job.priority, key, kind)


def _join(base: str, written: str) -> str | None:
    """The URL of an entry, without credentials: the site's own are neither stored nor sent."""
    target = urls.join(base, written)
    return None if target is None else urls.without_credentials(target)
