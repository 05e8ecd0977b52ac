"""The sitemap desk: a sitemap's entries become jobs of the locator's group; sitemaps it names are read in turn."""

from engine import urls
from engine.extract.sitemap import parse_sitemap
from engine.fetch.decode import decode
from engine.fetch.decompress import decompress
from engine.fetch.redirects import build_redirect_request
from engine.fetch.response import FetchResponse
from engine.model.job import JobKind, LeasedJob
from engine.model.job_key import link_key, locator_key
from engine.node.memory import HeapTrimmer
from engine.node.robots_job import SendRequest
from engine.store.transactions.outcome import ChildJob

_MAX_REDIRECTS = 5
_GZIP_MAGIC = b"\x1f\x8b"
_MAX_DEPTH = 4
"""Sitemaps that name sitemaps, at most so far down."""


class SitemapHandler:
    """One for each node."""

    def __init__(self, send: SendRequest, max_body: int, memory: HeapTrimmer) -> None:
        self._send = send
        self._max_body = max_body
        self._heap_trimmer = memory

    async def fetch(self, job: LeasedJob) -> tuple[FetchResponse, tuple[ChildJob, ...]]:
        """Fetch a sitemap; its answer, and the jobs it makes. Raises FetchFailed."""
        url, request = job.url, job.request
        for _ in range(_MAX_REDIRECTS + 1):
            answer = await self._send(job, url, request)
            if answer.location is None:
                break
            url, request = answer.location, build_redirect_request(request, answer.status, url, answer.location)
        if answer.status >= 300:
            return answer, ()
        body = decompress(answer.body, "gzip", self._max_body) if answer.body.startswith(_GZIP_MAGIC) else answer.body
        pages, sitemaps = parse_sitemap(decode(body, "application/xml").text)
        self._heap_trimmer.record_page(len(body))
        children: dict[bytes, ChildJob] = {}
        for written in pages:
            found = urls.join(url, written)
            if found is not None:
                key = link_key(job.group, found)
                children[key] = self._child(job, found, 0, key, JobKind.PAGE)
        for written in sitemaps if job.depth < _MAX_DEPTH else ():
            found = urls.join(url, written)
            if found is not None:
                key = locator_key(job.group, job.locator, found, JobKind.SITEMAP, None)
                children[key] = self._child(job, found, job.depth + 1, key, JobKind.SITEMAP)
        return answer, tuple(children.values())

    def _child(self, job: LeasedJob, url: str, depth: int, key: bytes, kind: JobKind) -> ChildJob:
        return ChildJob(job.group, urls.host_key(url), urls.origin(url), url, depth, job.priority, key, kind)
