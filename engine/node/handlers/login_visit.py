"""Sends the requests of one login, one after the other, each in its turn at its host."""

import time
from typing import NamedTuple

from engine import urls
from engine.http.redirects import build_redirect_request
from engine.http.response import FetchResponse
from engine.http.robots_request import ask_for_robots
from engine.model.job import JobKind, LeasedJob, Request
from engine.model.retry_policy import classify_status
from engine.node.def_cache import DefCache
from engine.node.handlers.robots_cache import RobotsCache
from engine.node.requests.redirect_rule import RedirectRule
from engine.node.requests.request_sender import RequestSender
from engine.robots.host_policy import resolve_host_policy
from engine.settings import Settings
from engine.store.tables.host.hosts import HostPolicy

_ROBOTS_SECONDS = 24 * 3600.0
"""Seconds for which a robots.txt that was read counts."""


class AskedDelay(NamedTuple):
    """What the robots.txt of a host other than that of the pages asks for; a node keeps them from login to login."""

    seconds: float
    read_at: float
    """Of the monotonic clock."""


_NO_DELAY = AskedDelay(0.0, float("-inf"))


class LoginFailed(Exception):
    """The login cannot be made; the text says why."""

    def __init__(self, reason: str, *, refused: bool = True) -> None:
        """`refused`: by the site, or by the defs; else it may succeed later."""
        super().__init__(reason)
        self.refused = refused


class LoginVisit:
    """The requests of one login: each at its host, redirects included."""

    def __init__(
        self, job: LeasedJob, host_key: str, *, sender: RequestSender, redirect_rule: RedirectRule,
        def_cache: DefCache, robots_cache: RobotsCache, settings: Settings, delays: dict[str, AskedDelay],
    ) -> None:  # fmt: skip
        """`host_key`: the host of the pages, whose limits the lease of the job has. `delays`: see `AskedDelay`."""
        self._sender = sender
        self._redirect_rule = redirect_rule
        self._def_cache = def_cache
        self._robots_cache = robots_cache
        self._settings = settings
        self._own_host = host_key
        self._own_job = self.job = job
        # where the job was admitted; at another host that was under the limits of its own
        self._host = host_key if urls.host_key(job.url) == host_key else ""
        self._delays = delays

    async def fetch(self, url: str, request: Request) -> tuple[str, FetchResponse]:
        """The last URL and the page there, after redirects. Raises LoginFailed and what sending raises."""
        for _ in range(self._settings.max_redirects + 1):
            response = await self._send(url, request)
            if response.refusal is not None:
                raise LoginFailed(f"blocked: {response.refusal}", refused=False)
            match classify_status(response.status):
                case "ok" | "no-page":
                    return url, response
                case "redirect":
                    target = response.location
                case "retry":
                    raise LoginFailed(f"HTTP {response.status}", refused=False)
                case _:
                    raise LoginFailed(f"HTTP {response.status}")
            if target is None:
                raise LoginFailed(response.location_problem or "invalid redirect")
            refusal = self._redirect_rule.refusal(self.job, url, target)
            if refusal is not None:
                raise LoginFailed(refusal)
            request = build_redirect_request(request, response.status, url, target)
            if request.body is not None and urls.origin(url) != urls.origin(target):
                raise LoginFailed(f"a redirect would send the password to {urls.origin(target)}")
            url = target
        raise LoginFailed(f"more than {self._settings.max_redirects} redirects")

    async def _send(self, url: str, request: Request) -> FetchResponse:
        host_key = urls.host_key(url)
        if host_key != self._host:
            if host_key != self._own_host:
                await self._ask_delay(url)
            await self._go_to(url)
        return await self._sender.send(self.job, url, request)

    async def _go_to(self, url: str) -> None:
        """Take a turn at the host of a URL, under its limits."""
        host_key = urls.host_key(url)
        self.job = self._own_job
        if host_key != self._own_host:
            policy = self._policy(host_key)
            asked = self._delays.get(host_key, _NO_DELAY) if policy.robots else _NO_DELAY
            delay = max(self._own_job.delay, policy.delay, asked.seconds)
            self.job = self._own_job._replace(delay=delay, host_concurrency=policy.concurrency)
        await self._sender.change_host(self.job, url)
        self._host = host_key

    async def _ask_delay(self, url: str) -> None:
        """Read the robots.txt of a host that is not that of the pages, once a day. Raises LoginFailed."""
        host_key, now = urls.host_key(url), time.monotonic()
        asked = self._delays.get(host_key, _NO_DELAY)
        if now - asked.read_at < _ROBOTS_SECONDS or not self._policy(host_key).robots:
            return
        answer = await ask_for_robots(f"{urls.origin(url)}/robots.txt", self._send_robots)
        robots = await self._robots_cache.parse(*answer)
        if not robots.readable:
            raise LoginFailed(f"{urls.origin(url)}: {robots.refusal(url)}", refused=False)
        self._delays[host_key] = AskedDelay(robots.delay, now)

    async def _send_robots(self, url: str, request: Request) -> FetchResponse:
        await self._go_to(url)
        return await self._sender.send(self.job._replace(kind=JobKind.ROBOTS), url, request)

    def _policy(self, host_key: str) -> HostPolicy:
        return resolve_host_policy(self._def_cache.definitions(self.job.defs_version), self._settings, host_key)
