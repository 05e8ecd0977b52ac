"""Sends the requests of a job: waits for its send time, adds the host's headers, counts what was received."""

import asyncio

from engine import urls
from engine.fetch.byte_budget import BodyShare, ByteBudget
from engine.fetch.client import Fetcher
from engine.fetch.credentials import HostPart
from engine.fetch.errors import AddressRefused
from engine.fetch.response import FetchResponse
from engine.fetch.robots import MAX_ROBOTS_BYTES
from engine.model.job import JobKind, JobOrigin, LeasedJob, Request
from engine.node.db_access import DbAccess
from engine.node.def_cache import DefCache
from engine.node.named_hosts import NamedHosts
from engine.node.secrets import HostCredentials, SecretValues
from engine.runtime.clock import boottime

_MAX_LATENESS = 0.05
_NO_FETCH_STATS = (0, 0.0, 0)


class RequestSender:
    """One for each node."""

    def __init__(
        self,
        *,
        fetcher: Fetcher,
        db_access: DbAccess,
        def_cache: DefCache,
        secrets: SecretValues,
        named_hosts: NamedHosts,
        byte_budget: ByteBudget,
    ) -> None:
        """`byte_budget`: what the bodies of all jobs may hold together."""
        self._fetcher = fetcher
        self._db_access = db_access
        self._def_cache = def_cache
        self._secrets = secrets
        self._host_credentials = HostCredentials(def_cache, secrets)
        self._named_hosts = named_hosts
        self._byte_budget = byte_budget
        self._shares: dict[tuple[int, int], BodyShare] = {}
        self._fetch_stats: dict[int, tuple[int, float, int]] = {}

    async def wait_to_send(self, job: LeasedJob, send_at: float) -> bool:
        """Sleep until a delayed request may be sent; False: the host is in backoff, or the send time was missed."""
        wait = send_at - boottime()
        if wait > 0:
            await asyncio.sleep(wait)
        late = boottime() - send_at
        if late > max(0.002, min(_MAX_LATENESS, job.delay / 10)):
            return False
        return not self._db_access.is_backing_off(job.host, boottime())

    async def send(self, job: LeasedJob, url: str, request: Request) -> FetchResponse:
        """Send one request for a job, with the headers and cookies the defs set for the host.

        Raises FetchFailed; AddressRefused if the host has a guarded address only and the defs do not name it.
        """
        part = await self._host_credentials.find(job, url)
        if request.headers or request.cookies or request.userinfo:
            request = await self._secrets.open_request(request)
        host_key = urls.host_key(url)
        try:
            exempt = self._named_hosts.is_known_exempt(host_key, job.defs_version)
            response = await self._send(job, url, request, part, exempt=exempt)
        except AddressRefused:
            # only hosts with guarded addresses cost the search for who names them
            if not self._named_hosts.is_exempt(host_key, job.defs_version):
                raise
            response = await self._send(job, url, request, part, exempt=True)
        count, seconds, received = self._fetch_stats.get(job.id, _NO_FETCH_STATS)
        self._fetch_stats[job.id] = (count + 1, seconds + response.elapsed, received + response.received)
        return response

    async def _send(self, job: LeasedJob, url: str, request: Request, part: HostPart, *, exempt: bool) -> FetchResponse:
        return await self._fetcher.send(
            url,
            request,
            headers=part.headers,
            cookies=part.cookies,
            url_from_defs=job.origin is JobOrigin.LOCATOR,
            exempt=exempt,
            read_at_most=MAX_ROBOTS_BYTES if job.kind is JobKind.ROBOTS else None,
            session_cookies=job.kind is JobKind.PAGE,
            share=self.share(job),
        )

    def asks_for_part(self, job: LeasedJob, url: str, request: Request) -> bool:
        """Whether the defs set a `Range` header, for the request or its host."""
        rule = self._def_cache.host_rule(job.defs_version, urls.host_key(url))
        return any(name.lower() == "range" for name in (*rule.headers, *(name for name, _ in request.headers)))

    def share(self, job: LeasedJob) -> BodyShare:
        """The bytes that the job's body holds of the node's budget."""
        key = (job.id, job.lease)
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = self._byte_budget.open_share()
        return share

    def take_share(self, job: LeasedJob) -> BodyShare | None:
        """The share of a job that sent a request or read a stored body; forgets it. The caller releases it."""
        return self._shares.pop((job.id, job.lease), None)

    def take_stats(self, job: int) -> tuple[int, float, int]:
        """Responses read for a job, their seconds, the bytes of their bodies; forgets them."""
        return self._fetch_stats.pop(job, _NO_FETCH_STATS)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._fetcher.aclose()
