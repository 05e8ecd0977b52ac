"""Fetches a sitemap: its entries and the sitemaps it names become jobs of the locator's group."""

from functools import partial

from engine import urls
from engine.extract.sitemap import parse_sitemap
from engine.fetch.decode import decode
from engine.fetch.decompress import decompress
from engine.fetch.redirect_chain import follow_redirects
from engine.fetch.response import FetchResponse
from engine.model.job import JobKind, LeasedJob
from engine.model.job_key import link_key, locator_key
from engine.node.heap_trimmer import HeapTrimmer
from engine.node.robots_job import SendRequest
from engine.store.transactions.outcome import ChildJob

_MAX_REDIRECTS = 5
_GZIP_MAGIC = b"\x1f\x8b"
_MAX_DEPTH = 4
"""Levels of sitemaps that name sitemaps."""


class SitemapHandler:
    """One for each node."""

    def __init__(self, send: SendRequest, max_body: int, heap_trimmer: HeapTrimmer) -> None:
        self._send = send
        self._max_body = max_body
        self._heap_trimmer = heap_trimmer

    async def fetch(self, job: LeasedJob) -> tuple[FetchResponse, tuple[ChildJob, ...]]:
        """Fetch a sitemap; returns the response and the new jobs. Raises FetchFailed."""
        url, response = await follow_redirects(job.url, job.request, partial(self._send, job), limit=_MAX_REDIRECTS)
        if response.status >= 300:
            return response, ()
        body = response.body
        if body.startswith(_GZIP_MAGIC):
            body = decompress(body, "gzip", self._max_body)
        pages, sitemaps = parse_sitemap(decode(body, "application/xml").text)
        self._heap_trimmer.record_page(len(body))
        children: dict[bytes, ChildJob] = {}
        for written in pages:
            target = _join(url, written)
            if target is not None:
                key = link_key(job.group, target)
                children[key] = self._child(job, target, 0, key, JobKind.PAGE)
        for written in sitemaps if job.depth < _MAX_DEPTH else ():
            target = _join(url, written)
            if target is not None:
                key = locator_key(job.group, job.locator, target, JobKind.SITEMAP, None)
                children[key] = self._child(job, target, job.depth + 1, key, JobKind.SITEMAP)
        return response, tuple(children.values())

    def _child(self, job: LeasedJob, url: str, depth: int, key: bytes, kind: JobKind) -> ChildJob:
        return ChildJob(job.group, urls.host_key(url), urls.origin(url), url, depth, job.priority, key, kind)


def _join(base: str, written: str) -> str | None:
    """The URL of an entry, without credentials: the site's own are neither stored nor sent."""
    target = urls.join(base, written)
    return None if target is None else urls.without_credentials(target)
