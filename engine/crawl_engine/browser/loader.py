"""Loads pages in a browser, and turns what they became into responses."""

import hashlib
import time
from collections.abc import Awaitable, Callable

from msgspec import field

from crawl_engine import urls
from crawl_engine.browser.browsers import BrowserPool, BrowserUnavailable, PageRules
from crawl_engine.browser.messages import TLS, MadeFile, NotRendered, Rendered, Visit
from crawl_engine.browser.page_cookies import list_changes, list_cookies
from crawl_engine.browser.proxy import ForwardProxy, ProxyPass
from crawl_engine.errors import UsageError, one_line
from crawl_engine.http.byte_budget import BodyShare
from crawl_engine.http.client import Fetcher
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.exchange import OutgoingRequest
from crawl_engine.http.rate_limit import read_rate_limit
from crawl_engine.http.response import FetchResponse, redirect_target
from crawl_engine.model.step import BrowserRule
from crawl_engine.processes.worker import WorkerEnded
from crawl_engine.settings import Settings

_WIRE_BODIES = 5
"""Bodies of `max_body` that a page may bring with all it loads."""
FILE_HEADER = "crawl-console-file-"
"""Begins the headers of the stored document that name its files."""
_OWN_HEADERS = frozenset({"accept", "accept-encoding", "cookie", "host"})
"""The browser sets them itself."""
_MAX_GUARDED = 3
_MAX_NOTED = 1_000
"""Refusals of parts that are remembered, so that each is told once."""


class _BrowserLost(Exception):
    """The browser of a page is not well, or has been flooded, and the page was not alone in it."""


class RenderedResponse(FetchResponse):
    """The page that a browser loaded, with the files that it made."""

    files: dict[str, bytes] = field(default_factory=dict)
    """By the names of RENDERED_FILES; their headers say what they are."""


class BrowserLoader:
    """One for each node; for one event loop."""

    def __init__(self, pool: BrowserPool, fetcher: Fetcher, settings: Settings) -> None:
        self._pool = pool
        self._proxy = ForwardProxy(fetcher.resolvers)
        self._fetcher = fetcher
        self._settings = settings
        self._noted = set[tuple[str, str]]()

    def has_free(self) -> bool:
        """Whether a browser has a place at once."""
        return self._pool.has_free()

    async def load(
        self, rule: BrowserRule, url: str, request: OutgoingRequest, share: BodyShare, *,
        admit: Callable[[], Awaitable[None]], rules: PageRules, sends_cookies: bool,
    ) -> FetchResponse:  # fmt: skip
        """Have a browser load a page. `url`: the request's URL with unexpanded variables.

        `admit`: returns when the request may be sent; awaited once a browser has a place, and again if that browser
        ended with other pages in it. `share` grows with the document. `sends_cookies`: whether those of the site are
        sent and kept.
        Raises FetchFailed, NoRoom, and what `admit` and `rules` raise.
        """
        if request.method != "GET":
            raise _fail(f"it sends no {request.method}; give the page a group without `loader: browser`")
        page = ProxyPass(self._settings.max_body * _WIRE_BODIES, rules.find_access)
        response: RenderedResponse | None = None
        need, began = self._pool.need(), time.perf_counter()

        async def begin() -> None:
            nonlocal began
            await admit()
            began = time.perf_counter()

        async def render() -> RenderedResponse:
            async with self._pool.reserve(need, urls.without_credentials(url)) as browser:
                visit = await self._describe(rule, request, page, sends_cookies)
                answer, waited = await browser.load(visit, rules, begin)
                if isinstance(answer, NotRendered) and need.may_blame(answer):
                    raise _BrowserLost
                if page.is_used_up or isinstance(answer, NotRendered):
                    raise self._explain(answer, request, page)
                await share.grow(len(answer.body))
                loaded = self._to_response(url, request, answer, page, time.perf_counter() - began - waited)
                if sends_cookies:
                    set_cookies = list_changes(request, visit.cookies, answer.cookies)
                    loaded.changed_site = self._fetcher.keep_cookies(request, set_cookies)
                return loaded

        try:
            try:
                response = await render()
            except (WorkerEnded, _BrowserLost) as death:
                if not need.is_suspect or (isinstance(death, WorkerEnded) and death.is_late):
                    raise
                need.is_alone = True  # whether this page or another one ended the browser: alone it costs itself
                response = await render()
            return response
        except BrowserUnavailable as error:
            raise _fail(str(error), retryable=True) from error
        except UsageError as error:
            raise FetchFailed(error.message, kind="loader", retryable=False, remedy=error.remedy) from error
        except WorkerEnded as death:
            raise _fail(str(death), retryable=True) from death
        finally:
            self._proxy.close(page)
            if response is not None and response.body:
                share.finish_reading()
            else:
                share.release()

    async def aclose(self) -> None:
        """End the browsers."""
        await self._pool.aclose()
        await self._proxy.aclose()

    async def _describe(
        self, rule: BrowserRule, request: OutgoingRequest, page: ProxyPass, sends_cookies: bool
    ) -> Visit:
        headers, route = request.joined_headers(), page.find_access(urls.host_key(request.target)).route
        return Visit(
            url=request.target + (request.route or ""),
            headers=tuple([(name, value) for name, value in headers.items() if name.lower() not in _OWN_HEADERS]),
            cookies=tuple(list_cookies(request, self._fetcher.site_cookies(request) if sends_cookies else ())),
            agent=self._settings.full_user_agent,
            rule=rule,
            proxy=await self._proxy.open(page),
            key=page.key,
            seconds=self._settings.deadline,
            max_body=self._settings.max_body,
            max_file=self._settings.max_file,
            verify=route is None or route.tls is None or route.tls.verify,
        )

    def _explain(self, answer: Rendered | NotRendered, request: OutgoingRequest, page: ProxyPass) -> FetchFailed:
        failure = page.failures.get(urls.host_key(request.target))
        if isinstance(answer, NotRendered) and answer.is_unanswered and failure is not None:
            return failure
        if isinstance(answer, Rendered) or page.is_used_up:
            return _fail(f"the page brought more than {page.limit:,} bytes ({_WIRE_BODIES} x max_body); see `block`")
        if answer.text.startswith(TLS):
            return FetchFailed(answer.text, kind="tls", retryable=False)
        guarded = f" (the address guard refused {', '.join(page.refused[:_MAX_GUARDED])})" if page.refused else ""
        return _fail(f"{answer.text}{guarded}", retryable=answer.retryable)

    def _to_response(
        self, url: str, request: OutgoingRequest, answer: Rendered, page: ProxyPass, seconds: float
    ) -> RenderedResponse:
        written, route = answer.leads_to.encode("utf-8", "replace") or None, request.route or ""
        # the browser has given the target its route
        location, problem = redirect_target(answer.status, written, request.target, "")
        limit = read_rate_limit(answer.status, answer.headers)
        final = None if answer.leads_to else urls.normalize(answer.url, keeps_route=bool(route))
        files = _split_files(answer)
        body = files.pop("")
        headers = [pair for pair in answer.headers if not pair[0].startswith(FILE_HEADER)]
        headers += [_describe_file(one, files.get(one.name, b"")) for one in answer.files]
        return RenderedResponse(
            url=urls.without_credentials(url),
            status=answer.status,
            headers=tuple(headers),
            body=b"" if written else body,
            received=page.received,
            elapsed=seconds,
            content_type=dict(answer.headers).get("content-type", ""),
            location=location,
            location_problem=problem,
            retry_after=limit.wait,
            exceeds_rate=limit.is_exceeded,
            loaded_url=None if final in (None, request.target + route) else final,
            files=files,
            notes=self._select_notes(urls.host_key(url), answer.notes, page),
        )

    def _select_notes(self, host: str, notes: dict[str, str], page: ProxyPass) -> tuple[str, ...]:
        """What the page was refused for a reason that was not told of a page of the host before."""
        guarded = {place: f"the address guard refused {place}" for place in page.refused[:_MAX_GUARDED]}
        given = {(host, reason): text for reason, text in {**guarded, **notes}.items()}
        new = {key: text for key, text in given.items() if key not in self._noted}
        if len(self._noted) < _MAX_NOTED:
            self._noted.update(new)
        return tuple(new.values())


def _split_files(answer: Rendered) -> dict[str, bytes]:
    """The bytes of the files by name, and of the document by an empty one."""
    start = len(answer.body) - sum(one.size for one in answer.files)
    parts = {"": answer.body[:start] if answer.files else answer.body}
    for one in answer.files:
        if not one.problem:
            parts[one.name] = answer.body[start : start + one.size]
        start += one.size
    return parts


def _describe_file(made: MadeFile, content: bytes) -> tuple[str, str]:
    """The header by which the stored document knows a file: its hash and size, or why there is none."""
    text = made.problem or f"{hashlib.sha256(content).hexdigest()} {made.size}"
    return f"{FILE_HEADER}{made.name}", one_line(text)


def _fail(text: str, *, retryable: bool = False) -> FetchFailed:
    return FetchFailed(f"browser: {text}", kind="loader", retryable=retryable)
