"""The sitemap desk: a sitemap's entries become jobs of the locator's group; sitemaps it names are read in turn."""

from engine import urls
from engine.extract.sitemap import entries
from engine.fetch.decode import decode
from engine.fetch.decompress import unpack
from engine.fetch.redirects import next_hop
from engine.fetch.response import Answer
from engine.model.job import JobKind, LeasedJob
from engine.model.job_key import link_key, locator_key
from engine.node.memory import Memory
from engine.node.robots_job import Send
from engine.store.transactions.commit import Child

_HOPS = 5
_GZIP = b"\x1f\x8b"
_DEEPEST = 4
"""Sitemaps that name sitemaps, at most so far down."""


class SitemapDesk:
    """One for each node."""

    def __init__(self, send: Send, max_body: int, memory: Memory) -> None:
        self._send = send
        self._max_body = max_body
        self._memory = memory

    async def read(self, job: LeasedJob) -> tuple[Answer, tuple[Child, ...]]:
        """Fetch a sitemap; its answer, and the jobs it makes. Raises FetchFailed."""
        url, request = job.url, job.request
        for _ in range(_HOPS + 1):
            answer = await self._send(job, url, request)
            if answer.location is None:
                break
            url, request = answer.location, next_hop(request, answer.status, url, answer.location)
        if answer.status >= 300:
            return answer, ()
        body = unpack(answer.body, "gzip", self._max_body) if answer.body.startswith(_GZIP) else answer.body
        pages, sitemaps = entries(decode(body, "application/xml").text)
        self._memory.worked(len(body))
        children: dict[bytes, Child] = {}
        for written in pages:
            found = urls.join(url, written)
            if found is not None:
                key = link_key(job.group, found)
                children[key] = self._child(job, found, 0, key, JobKind.PAGE)
        for written in sitemaps if job.depth < _DEEPEST else ():
            found = urls.join(url, written)
            if found is not None:
                key = locator_key(job.group, job.locator, found, JobKind.SITEMAP, None)
                children[key] = self._child(job, found, job.depth + 1, key, JobKind.SITEMAP)
        return answer, tuple(children.values())

    def _child(self, job: LeasedJob, url: str, depth: int, key: bytes, kind: JobKind) -> Child:
        return Child(job.group, urls.host_key(url), urls.origin(url), url, depth, job.priority, key, kind)
