"""Sends the requests of one login, one after the other, each in its turn at its host."""

from engine import urls
from engine.fetch.host_policy import resolve_host_policy
from engine.fetch.redirects import build_redirect_request
from engine.fetch.response import FetchResponse
from engine.fetch.retry_policy import classify_status
from engine.model.job import LeasedJob, Request
from engine.node.def_cache import DefCache
from engine.node.redirect_rule import RedirectRule
from engine.node.request_sender import RequestSender
from engine.settings import Settings


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
        def_cache: DefCache, settings: Settings,
    ) -> None:  # fmt: skip
        """`host_key`: the host of the pages, whose delay the lease of the job has."""
        self._sender = sender
        self._redirect_rule = redirect_rule
        self._def_cache = def_cache
        self._settings = settings
        self.job = job
        self._own_host = host_key
        self._host = urls.host_key(job.url)  # where the job was admitted

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
                definitions = self._def_cache.definitions(self.job.defs_version)
                policy = resolve_host_policy(definitions, self._settings, host_key)
                self.job = _replace_limits(self.job, policy.delay, policy.concurrency)
            await self._sender.change_host(self.job, url)
            self._host = host_key
        return await self._sender.send(self.job, url, request)


def _replace_limits(job: LeasedJob, delay: float, concurrency: int) -> LeasedJob:
    """The job with the limits of another host, at least as slow as at its own."""
    return job._replace(delay=max(job.delay, delay), host_concurrency=concurrency)
