"""Holds the secrets that the supervisor hands to a node, and puts them into requests just before they are sent."""

import asyncio
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from engine import urls
from engine.fetch.credentials import NOTHING, HostPart, host_part, may_carry_credentials
from engine.fetch.errors import FetchFailed
from engine.model.host import HostAuth, HostRoute
from engine.model.job import JobKind, JobOrigin, LeasedJob, Request
from engine.model.secret import find_ids, open_placeholders
from engine.node.def_cache import DefCache

_WAIT_SECONDS, _POLL_SECONDS = 3.0, 0.02
"""The supervisor sends a secret before the defs or jobs that need it; the pipe may be slower than the database."""
_PENDING_WAIT_SECONDS = 0.5
PENDING_RETRY_SECONDS = 2.0
"""After which a job is leased again whose secret was not there."""
_MAX_CACHED_HOSTS = 1000


class SecretPending(Exception):
    """A secret is not there, and the supervisor may still send it; the job must wait for it."""


class SecretValues:
    """Filled by the lifeline's thread, read by the fetch loop. Never written to disk."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._missing: set[str] = set()
        self._complete = False

    def __repr__(self) -> str:
        return f"SecretValues({len(self._values)} secrets)"

    def add(self, values: Mapping[str, str]) -> None:
        """Add secrets by id."""
        self._values.update(values)

    def mark_complete(self) -> None:
        """From now on, a job whose secret is not there has lost it."""
        self._complete = True

    def find(self, id_: str) -> str | None:
        """The value of an id, if it is there."""
        return self._values.get(id_)

    async def open(self, text: str) -> str:
        """The text with its secrets.

        Raises FetchFailed if one is no longer in the defs, SecretPending if the supervisor may still send it: after a
        restart it reads the lists of URLs again, while nodes lease the jobs that it seeded from them.
        """
        ids = find_ids(text)
        if not ids:
            return text
        for id_ in ids:
            if id_ not in self._values:
                await self._wait_for(id_)
        return open_placeholders(text, self._values.__getitem__)

    async def open_request(self, request: Request) -> Request:
        """The request with its secrets. Raises what `open` does."""
        values = (request.userinfo, *(value for _, value in (*request.headers, *request.cookies)))
        if not any(map(find_ids, values)):
            return request  # most requests: copying one takes longer than sending its headers
        headers, cookies = await self.open_pairs(request.headers), await self.open_pairs(request.cookies)
        return replace(request, headers=headers, cookies=cookies, userinfo=await self.open(request.userinfo))

    async def open_pairs(self, pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Names and values, each value with its secrets. Raises what `open` does."""
        return tuple([(name, await self.open(value)) for name, value in pairs])

    async def _wait_for(self, id_: str) -> None:
        if id_ not in self._missing:  # only the first job waits
            seconds = _WAIT_SECONDS if self._complete else _PENDING_WAIT_SECONDS
            for _ in range(int(seconds / _POLL_SECONDS)):
                await asyncio.sleep(_POLL_SECONDS)
                if id_ in self._values:
                    return
            self._missing.add(id_)
        if not self._complete:
            raise SecretPending
        raise FetchFailed(
            "a header, cookie or password that it needs is no longer in the defs",
            kind="secret",
            retryable=False,
            remedy="Give the list of URLs again, or restore the secret in the defs, and retry the failed jobs.",
        )


class HostCredentials:
    """What the rules of hosts add to the requests of jobs; each rule is opened once for each def version."""

    def __init__(self, def_cache: DefCache, secrets: SecretValues) -> None:
        self._def_cache = def_cache
        self._secrets = secrets
        self._opened: dict[tuple[int, str, bool], HostPart] = {}

    async def find(self, job: LeasedJob, url: str) -> HostPart:
        """What the host's rule adds to one request of a job.

        Credentials go to pages, files and logins alone, not to robots.txt and sitemaps. Raises what `open` does.
        """
        version, key = job.defs_version, urls.host_key(url)
        rule = self._def_cache.host_rule(version, key)
        if not (rule.headers or rule.cookies or rule.auth or rule.route):
            return NOTHING
        allowed = job.kind in (JobKind.PAGE, JobKind.FILE, JobKind.LOGIN) and may_carry_credentials(
            rule, url, _start_url(job), self._def_cache.plain_hosts(version)
        )
        opened = self._opened.get((version, key, allowed))
        if opened is None:
            part = host_part(rule, with_credentials=allowed)
            headers = await self._secrets.open_pairs(part.headers.items())
            cookies = await self._secrets.open_pairs(part.cookies.items())
            if len(self._opened) >= _MAX_CACHED_HOSTS:
                self._opened.clear()
            opened = HostPart(
                dict(headers), dict(cookies), await self._open_auth(part.auth), await self._open_route(part.route)
            )
            self._opened[version, key, allowed] = opened
        return opened

    async def _open_auth(self, auth: HostAuth | None) -> HostAuth | None:
        return auth and replace(auth, credential=await self._secrets.open(auth.credential))

    async def _open_route(self, route: HostRoute | None) -> HostRoute | None:
        return route and replace(route, proxies=tuple([await self._secrets.open(url) for url in route.proxies]))


def _start_url(job: LeasedJob) -> str:
    """The URL of the job's locator; empty for a link without one, whose own URL says nothing."""
    return job.locator_url if job.origin is JobOrigin.LOCATOR or job.root != job.id else ""
