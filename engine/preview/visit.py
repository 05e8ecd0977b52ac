"""Fetches one page for an operator, with redirects and robots.txt as in a crawl; stores nothing.

A crawl spreads the hops of a page over leases, which keep each host's delay. Here one operator waits for one page.
"""

import asyncio
from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from engine import urls
from engine.defs.url_patterns import expand
from engine.errors import PageUnavailable, UsageError
from engine.extract.page.refresh import find_refresh
from engine.http.client import Fetcher
from engine.http.errors import FetchFailed, NoFileLeft
from engine.http.redirects import RedirectChain, RedirectRejected, TooManyRedirects
from engine.http.request import HostPart, build_request, expand_url, host_part, may_carry_credentials
from engine.http.response import FetchResponse, not_followed
from engine.http.robots_request import ROBOTS_BYTES_READ, ask_for_robots
from engine.http.transports.middleware import MiddlewareLoader
from engine.model.definition import Definitions, Locator
from engine.model.fingerprint import list_query_rules
from engine.model.host import product_token
from engine.model.job import Request
from engine.model.retry_policy import FOUND, SEE_OTHER, classify_status
from engine.model.variables import decode_variables
from engine.node.extraction.page_extraction import UnsupportedContent, parse_page
from engine.node.loading.page_loader import GroupLoader, PageLoader, find_loader
from engine.node.loading.pool import LoaderPool
from engine.processes.launcher import OwnTemplate
from engine.robots.host_policy import find_plain_hosts, host_rule_for, resolve_host_policy
from engine.robots.rules import HostRobots, parse_robots
from engine.settings import Settings
from engine.supervise.seeding.seed_reader import SeedReader
from engine.urls import QueryStripper

_VERSION = 1
"""Of the defs, during one visit."""


def fetch_page(url: str, definitions: Definitions, settings: Settings, group: str | None = None) -> FetchResponse:
    """Fetch a page, of whatever final status; the response's `url` is the final one, without credentials.

    The plugin loader of `group` fetches it, if there is one; without a group, that of a locator with this URL.
    Applies the host rules of the defs: headers, cookies, and whether to obey robots.txt. The host of `url` may be at
    any address, as that of a locator; a redirect may lead to a public one, or to one that the defs name.
    Raises PageUnavailable.
    """
    start = urls.normalize(url)
    if start is None:
        raise PageUnavailable(
            f"{urls.without_credentials(url)}: not an http or https URL", "Write the full URL: https://…"
        )
    request, start_url = Request(userinfo=urls.userinfo_of(start)), urls.without_credentials(start)
    named = _find_locator(definitions, settings, start_url, group)
    if named is not None:
        group, locator = named
        request = replace(
            request, method=locator.method, headers=tuple(locator.headers.items()),
            cookies=tuple(locator.cookies.items()), body=locator.body, content_type=locator.content_type,
        )  # fmt: skip
    return asyncio.run(_PageFetch(definitions, settings, start_url, group or "").fetch(start_url, request))


def fetch_linked_page(url: str, start_url: str, definitions: Definitions, settings: Settings) -> FetchResponse:
    """Fetch a page that a link leads to, with no more trust than a crawl has: the site wrote the URL.

    `start_url`: where the operator began; its host may have any address, and `http:` may carry its credentials.
    Empty: not a page of the web. Raises PageUnavailable.
    """
    normalized = urls.normalize(url)
    if normalized is None:
        raise PageUnavailable(f"{urls.without_credentials(url)}: not an http or https URL", "Open another link.")
    page_fetch = _PageFetch(definitions, settings, start_url, "", from_defs=False)
    return asyncio.run(page_fetch.fetch(urls.without_credentials(normalized), Request()))


def _find_locator(
    definitions: Definitions, settings: Settings, url: str, group: str | None
) -> tuple[str, Locator] | None:
    """The locator with this URL, and its group; only one of `group`, if that is given."""
    base = settings.base_url or definitions.base_url
    for locator_group in definitions.locator_groups:
        for locator in locator_group.locators if group in (None, locator_group.name) else ():
            if not locator.body_pieces and any(urls.resolve(written, base) == url for written in locator.urls):
                return locator_group.name, locator
    return None


class _PageFetch:
    def __init__(
        self, definitions: Definitions, settings: Settings, start_url: str, group: str, *, from_defs: bool = True
    ) -> None:
        """`start_url`: what the operator wrote, without credentials. `from_defs`: so is the URL of the page."""
        self._definitions = definitions
        self._settings = settings
        self._start_url = start_url
        self._from_defs = from_defs
        self._written_url = ""
        self._plain_hosts = find_plain_hosts(definitions)
        self._fetcher = Fetcher.from_settings(settings, connections=2)
        self._middleware = MiddlewareLoader()
        self._robots: dict[str, HostRobots] = {}
        self._exempt = {urls.host_key(start_url)} if urls.is_http_url(start_url) else set[str]()
        self._group = group
        self._loader = find_loader(definitions.task_group(group))
        self._page_loader: PageLoader | None = None
        self._template = OwnTemplate(["engine.node.loading.loader_child"])

    async def fetch(self, url: str, request: Request) -> FetchResponse:
        self._written_url = url if self._from_defs else ""
        stripper = QueryStripper.from_rules(list_query_rules(self._definitions))
        chain = RedirectChain(
            url, request, limit=self._settings.max_redirects, query_stripper=stripper, find_cookies=self._find_cookies
        )
        try:
            return await self._follow_redirects(chain)
        except FetchFailed as failure:
            raise PageUnavailable(
                f"{decode_variables(url)}: {failure.reason}", failure.remedy or "Try again, or give a file."
            ) from failure
        except NoFileLeft as error:
            raise PageUnavailable(f"{decode_variables(url)}: {error}", "Close other programs, or raise it.") from error
        finally:
            if self._page_loader is not None:
                self._page_loader.close()
                self._template.close()
            await self._fetcher.aclose()

    async def _follow_redirects(self, chain: RedirectChain) -> FetchResponse:
        elapsed = 0.0
        while True:
            await self._check_robots(chain.url)
            response = await self._send(chain.url, chain.request)
            elapsed += response.elapsed
            if classify_status(response.status) != "redirect":
                if response.loaded_url is not None:  # a plugin loader has followed redirects by itself
                    self._advance(chain, replace(response, status=FOUND, location=response.loaded_url))
                    await self._check_address(chain.url)
                    await self._check_robots(chain.url)
                refresh_to = self._find_refresh(chain, response)
                if refresh_to is None:
                    return replace(response, url=chain.url, elapsed=elapsed)
                response = replace(response, status=SEE_OTHER, location=refresh_to)
            self._advance(chain, response)

    def _find_refresh(self, chain: RedirectChain, response: FetchResponse) -> str | None:
        """The URL to which the page leads by itself, if a crawl would follow it."""
        if not self._settings.meta_refresh or classify_status(response.status) != "ok":
            return None
        try:
            page = parse_page(
                response.body, response.content_type, url=chain.url, status=response.status, fetched_at=0.0,
                headers=response.headers,
            )  # fmt: skip
        except UnsupportedContent:
            return None
        target = find_refresh(page)
        if target is not None and urls.is_file_url(target):
            raise self._rejection(chain, RedirectRejected(not_followed(target)), "Only the site can fix this.")
        if target is None or not chain.may_refresh(chain.url, target, response.cookie_header):
            return None
        return target

    def _advance(self, chain: RedirectChain, response: FetchResponse) -> None:
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
            answer = await ask_for_robots(f"{urls.origin(url)}/robots.txt", self._send_robots)
            self._robots[key] = parse_robots(*answer, product_token(self._settings.user_agent))
        refusal = self._robots[key].refusal(expand_url(url) if url == self._written_url else url)
        if refusal is not None:
            robots = self._robots[key]
            crawl = "A crawl would skip it." if robots.readable else "A crawl would retry, then fail it."
            advice = "If the site is yours, use --set robots=false, or `robots: false` in `hosts`."
            if not robots.has_answer:
                refusal, advice = robots.problem, "Check the URL and the network."
            raise PageUnavailable(f"{urls.without_credentials(url)}: {refusal}", f"{crawl} {advice}")

    async def _send_robots(self, url: str, request: Request) -> FetchResponse:
        return await self._send(url, request, for_robots=True)

    async def _send(self, url: str, request: Request, *, for_robots: bool = False) -> FetchResponse:
        host_key = urls.host_key(url)
        rule = host_rule_for(self._definitions, host_key)
        part = self._host_part(url, for_robots=for_robots)
        if self._loader is not None and not for_robots:
            response = await self._load(self._loader, url, request, part)
            if response is not None:
                return response
        send = partial(
            self._fetcher.send,
            url,
            request,
            headers=part.headers,
            cookies=part.cookies,
            auth=part.auth,
            route=part.route,
            url_from_defs=url == self._written_url,
            exempt=host_key in self._exempt,
            find_exemption=partial(self._is_named, host_key),
            middleware=() if for_robots else self._middleware.find(rule.middleware, 0, lambda _: self._definitions),
            read_at_most=ROBOTS_BYTES_READ if for_robots else None,
            session_cookies=not for_robots,
        )
        response = await send()
        return response if response.challenge_answer is None else await send(authorization=response.challenge_answer)

    def _host_part(self, url: str, *, for_robots: bool = False) -> HostPart:
        rule = host_rule_for(self._definitions, urls.host_key(url))
        allowed = not for_robots and may_carry_credentials(rule, url, self._start_url, self._plain_hosts)
        return host_part(rule, with_credentials=allowed)

    def _find_cookies(self, url: str, request: Request) -> str:
        return self._fetcher.cookie_header(
            url, request, self._host_part(url), url_from_defs=url == self._written_url
        )  # fmt: skip

    async def _load(
        self, loader: GroupLoader, url: str, request: Request, part: HostPart
    ) -> FetchResponse | None:  # fmt: skip
        """The response of the plugin loader; None: the built-in client is to fetch the page."""
        await self._check_address(url)
        outgoing = build_request(
            url, request, part.headers, part.cookies, from_defs=url == self._written_url, auth=part.auth
        )
        context = {"group": self._group, "locator": self._group, "depth": 0, "run": "try", "attempt": 1}
        if self._page_loader is None:
            self._page_loader = PageLoader(LoaderPool(self._template, self._settings), self._settings)
        outcome = await self._page_loader.load(
            loader, self._definitions, _VERSION, url=url, request=outgoing, context=context
        )  # fmt: skip
        if outcome.failure is not None:
            raise outcome.failure
        return outcome.response

    async def _check_address(self, url: str) -> None:
        """Raises AddressRefused."""
        host_key = urls.host_key(url)
        if host_key not in self._exempt and not self._is_named(host_key):
            await self._fetcher.check_address(url, host_rule_for(self._definitions, host_key).route)

    def _is_named(self, host_key: str) -> bool:
        name, _, port = host_key.rpartition(":")
        return self._definitions.allows_private(name, int(port)) or host_key in locator_hosts(
            self._definitions, self._settings.base_url
        )


def locator_hosts(definitions: Definitions, base_url: str | None) -> frozenset[str]:
    """The hosts (`name:port`) of all locators, and of the base of relative ones; those on stdin are not read."""
    base = base_url or definitions.base_url
    locators = (locator for group in definitions.locator_groups for locator in group.locators)
    written = (url for locator in locators for url in _written_urls(locator, base))
    resolved = (urls.resolve(url, base) for url in ("", *written))
    return frozenset(urls.host_key(url) for url in resolved if url is not None)


def _written_urls(locator: Locator, base: str | None) -> Iterator[str]:
    for pattern in locator.urls:
        yield from expand(pattern)
    if locator.sitemap:
        yield locator.sitemap
    if locator.from_file and locator.from_file != "-":
        try:
            yield from (seed.url for seed in SeedReader(base).list_listed(locator) if seed is not None)
        except UsageError:
            return  # a crawl reports it; here it only names no host
