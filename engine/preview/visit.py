"""Fetches one page for an operator, with redirects and robots.txt as in a crawl; stores nothing.

A crawl spreads the hops of a page over leases, which keep each host's delay. Here one operator waits for one page.
"""

import asyncio
from dataclasses import replace

from engine import urls
from engine.errors import PageUnavailable
from engine.fetch.client import Fetcher
from engine.fetch.credentials import find_plain_hosts, host_part, may_carry_credentials
from engine.fetch.errors import FetchFailed
from engine.fetch.host_policy import host_rule_for, resolve_host_policy
from engine.fetch.redirect_chain import RedirectChain, RedirectRejected, TooManyRedirects
from engine.fetch.response import FetchResponse
from engine.fetch.retry_policy import classify_status
from engine.fetch.robots_reader import HostRobots, fetch_robots, parse_robots
from engine.model.definition import Definitions
from engine.model.job import Request
from engine.settings import Settings


def fetch_page(url: str, definitions: Definitions, settings: Settings) -> FetchResponse:
    """Fetch a page, of whatever final status; the response's `url` is the final one, without credentials.

    Applies the host rules of the defs: headers, cookies, and whether to obey robots.txt. Raises PageUnavailable.
    """
    start = urls.normalize(url)
    if start is None:
        raise PageUnavailable(
            f"{urls.without_credentials(url)}: not an http or https URL", "Write the full URL: https://…"
        )
    request = Request(userinfo=urls.userinfo_of(start))
    return asyncio.run(_PageFetch(definitions, settings, urls.without_credentials(start)).fetch(request))


class _PageFetch:
    def __init__(self, definitions: Definitions, settings: Settings, start_url: str) -> None:
        self._definitions = definitions
        self._settings = settings
        self._start_url = start_url
        self._plain_hosts = find_plain_hosts(definitions)
        self._fetcher = Fetcher.from_settings(settings, connections=2)
        self._robots: dict[str, HostRobots | None] = {}

    async def fetch(self, request: Request) -> FetchResponse:
        chain = RedirectChain(self._start_url, request, limit=self._settings.max_redirects)
        try:
            return await self._follow_redirects(chain)
        except FetchFailed as failure:
            raise PageUnavailable(
                f"{self._start_url}: {failure.reason}", failure.remedy or "Try again, or give a file."
            ) from failure
        finally:
            await self._fetcher.aclose()

    async def _follow_redirects(self, chain: RedirectChain) -> FetchResponse:
        elapsed = 0.0
        while True:
            await self._check_robots(chain.url)
            response = await self._send(chain.url, chain.request)
            elapsed += response.elapsed
            if classify_status(response.status) != "redirect":
                return replace(response, elapsed=elapsed)
            try:
                chain.advance(response)
            except TooManyRedirects as error:
                raise self._rejection(chain, error, "Raise the limit with --set max_redirects=N.") from error
            except RedirectRejected as error:
                raise self._rejection(chain, error, "Only the site can fix this.") from error

    def _rejection(self, chain: RedirectChain, error: RedirectRejected, remedy: str) -> PageUnavailable:
        return PageUnavailable(f"{urls.without_credentials(chain.url)}: {error}", remedy)

    async def _check_robots(self, url: str) -> None:
        key = urls.host_key(url)
        if not resolve_host_policy(self._definitions, self._settings, key).robots:
            return
        if key not in self._robots:
            self._robots[key] = await self._read_robots(urls.origin(url))
        robots = self._robots[key]
        refusal = None if robots is None else robots.refusal(url, self._settings.user_agent)
        if refusal is not None:
            raise PageUnavailable(
                f"{urls.without_credentials(url)}: {refusal}",
                "A crawl would skip it. If the site is yours, use --set robots=false, or `robots: false` in `hosts`.",
            )

    async def _read_robots(self, origin: str) -> HostRobots | None:
        """The host's robots.txt; None where it cannot be fetched, which allows everything, as in a crawl."""
        try:
            response, text = await fetch_robots(f"{origin}/robots.txt", self._send_robots)
        except FetchFailed:
            return None
        return parse_robots(response.status, text)

    async def _send(self, url: str, request: Request) -> FetchResponse:
        rule = host_rule_for(self._definitions, urls.host_key(url))
        part = host_part(rule, with_credentials=may_carry_credentials(rule, url, self._start_url, self._plain_hosts))
        return await self._fetcher.send(url, request, headers=part.headers, cookies=part.cookies, url_from_defs=True)

    async def _send_robots(self, url: str, request: Request) -> FetchResponse:
        part = host_part(host_rule_for(self._definitions, urls.host_key(url)), with_credentials=False)
        return await self._fetcher.send(url, request, headers=part.headers, session_cookies=False)
