"""Fetches one page for an operator, with redirects and robots.txt as in a crawl; stores nothing.

A crawl spreads the hops of a page over leases, which keep each host's delay. Here one operator waits for one page.
"""

import asyncio
from dataclasses import replace
from functools import partial

from engine import urls
from engine.errors import PageUnavailable
from engine.fetch.client import Fetcher
from engine.fetch.errors import AddressRefused, FetchFailed
from engine.fetch.host_policy import host_rule_for, resolve_host_policy
from engine.fetch.redirect_chain import RedirectChain, RedirectRejected, TooManyRedirects
from engine.fetch.response import FetchResponse
from engine.fetch.retry_policy import classify_status
from engine.fetch.robots import MAX_ROBOTS_BYTES, product_token
from engine.fetch.robots_reader import HostRobots, fetch_robots
from engine.model.definition import Definitions
from engine.model.job import Request
from engine.preview.locator_hosts import locator_hosts
from engine.settings import Settings


def fetch_page(url: str, definitions: Definitions, settings: Settings) -> FetchResponse:
    """Fetch a page, of whatever final status; the response's `url` is the final one, without credentials.

    Applies the host rules of the defs: headers, cookies, and whether to obey robots.txt. The host of `url` may be at
    any address, as that of a locator; a redirect may lead to a public one, or to one that the defs name.
    Raises PageUnavailable.
    """
    start = urls.normalize(url)
    if start is None:
        raise PageUnavailable(
            f"{urls.without_credentials(url)}: not an http or https URL", "Write the full URL: https://…"
        )
    return asyncio.run(_PageFetch(definitions, settings).fetch(start))


class _PageFetch:
    def __init__(self, definitions: Definitions, settings: Settings) -> None:
        self._definitions = definitions
        self._settings = settings
        self._fetcher = Fetcher.from_settings(settings, connections=2)
        self._robots: dict[str, HostRobots] = {}
        self._exempt: set[str] = set()

    async def fetch(self, url: str) -> FetchResponse:
        self._exempt.add(urls.host_key(url))
        try:
            return await self._follow_redirects(RedirectChain(url, Request(), limit=self._settings.max_redirects))
        except FetchFailed as failure:
            where = urls.without_credentials(url)
            raise PageUnavailable(
                f"{where}: {failure.reason}", failure.remedy or "Try again, or give a file."
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
            send = partial(self._send, read_at_most=MAX_ROBOTS_BYTES)
            self._robots[key] = await fetch_robots(
                f"{urls.origin(url)}/robots.txt", send, product_token(self._settings.user_agent)
            )
        refusal = self._robots[key].refusal(url)
        if refusal is not None:
            crawl = "A crawl would skip it." if self._robots[key].readable else "A crawl would retry, then fail it."
            raise PageUnavailable(
                f"{urls.without_credentials(url)}: {refusal}",
                f"{crawl} If the site is yours, use --set robots=false, or `robots: false` in `hosts`.",
            )

    async def _send(self, url: str, request: Request, *, read_at_most: int | None = None) -> FetchResponse:
        host_key = urls.host_key(url)
        try:
            return await self._send_once(url, request, host_key, read_at_most)
        except AddressRefused:
            if host_key in self._exempt or not self._is_named(host_key):
                raise
            self._exempt.add(host_key)
            return await self._send_once(url, request, host_key, read_at_most)

    async def _send_once(self, url: str, request: Request, host_key: str, read_at_most: int | None) -> FetchResponse:
        rule = host_rule_for(self._definitions, host_key)
        return await self._fetcher.send(
            url,
            request,
            headers=rule.headers,
            cookies=rule.cookies,
            url_from_defs=True,
            exempt=host_key in self._exempt,
            read_at_most=read_at_most,
        )

    def _is_named(self, host_key: str) -> bool:
        name, _, port = host_key.rpartition(":")
        return self._definitions.allows_private(name, int(port)) or host_key in locator_hosts(
            self._definitions, self._settings.base_url
        )
