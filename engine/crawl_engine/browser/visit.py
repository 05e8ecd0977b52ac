"""Loads one page in a context of its own, acts on it, and gives the document that it became."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Sequence
from functools import partial
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace
from playwright.async_api import Browser, BrowserContext, CDPSession, Page, Response
from playwright.async_api import Error as BrowserError
from playwright.async_api import TimeoutError as BrowserTimeout

from crawl_engine.browser.document import Captures, CollectedStates, RenderedTooLarge, write_document
from crawl_engine.browser.messages import (
    MAX_COOKIES,
    MAX_TEXT,
    TLS,
    BrowserCookie,
    MadeFile,
    NotRendered,
    Rendered,
    Visit,
)
from crawl_engine.browser.page_cookies import from_playwright, to_playwright
from crawl_engine.browser.repeats import InVain, Repeats
from crawl_engine.browser.target import Target
from crawl_engine.browser.traffic import Ask, PageTraffic
from crawl_engine.browser.visit_clock import VisitClock
from crawl_engine.http.response import check_headers
from crawl_engine.model.step import BrowserAction
from crawl_engine.runtime.task_set import TaskSet

_VIEWPORT = (1280, 720)
_IDLE_SECONDS = 0.5
"""Without a request, after which a page is idle."""
_CLOSE_SECONDS = 5.0
_MAX_RELOADS = 5
_TEXT_CHARACTERS = 300
_URL_CHARACTERS = 100
_FIRST_ERROR = 400
_EMPTY_ERROR = "ERR_HTTP_RESPONSE_CODE_FAILURE"
"""The code of a document with an error status and no content."""
_STAGES = {"load": "its load event did not come", "idle": "it did not become idle"}
_CRASH = "crashed"
"""In the driver's words, too: `Target crashed`."""
_CRASHED = "the page crashed, or needed more memory than the browser has (browser_memory)"
_CLOSED_ITSELF = "the page closed itself"
_CLOSED = (_CLOSED_ITSELF, "has been closed")
_WITHOUT_CONTENT = (204, 205)
_NO_DOCUMENT = "the browser shows no document of this URL: a file, or an answer without content"
_FINAL = {
    "ERR_ABORTED": _NO_DOCUMENT,
    "Download is starting": _NO_DOCUMENT,
    "ERR_UNSAFE_PORT": "browsers refuse to use the port of this URL",
    "ERR_INVALID_AUTH_CREDENTIALS": "HTTP 401: it asks for a user and a password, which are `auth` of its host",
    "ERR_TOO_MANY_REDIRECTS": "too many redirects",
}
"""What a further attempt would not change, by its code."""
_MISTAKES = ("while parsing", "is not a valid selector", "Unknown key")
_CERTIFICATE = TLS + "invalid certificate: {}"


class _Failed(Exception):
    """The page could not be used."""

    def __init__(self, text: str, *, retryable: bool = True, is_unanswered: bool = False) -> None:
        super().__init__(text)
        self.retryable = retryable
        self.is_unanswered = is_unanswered


class PageVisit:
    """One page. `ask` has the node judge its requests."""

    def __init__(self, browser: Browser, visit: Visit, agent: str, ask: Ask, *, stays: bool = False) -> None:
        """`agent`: the User-Agent. `stays`: the page is left open."""
        self._browser = browser
        self._stays = stays
        self._visit = visit
        self._agent = agent
        self._clock = VisitClock(visit.seconds)
        self._stage = "no answer came"
        """What the page has not done yet."""
        self._traffic = PageTraffic(visit, ask, self._clock, self._on_end)
        self._captures = Captures(visit.rule, visit.max_body)
        self._states = CollectedStates(visit.rule, visit.max_body) if visit.rule.collect else None
        self._has_come = False
        """Whether its document has been answered."""
        self._ended = asyncio.Event()
        """Whether the page crashed, or closed itself."""
        self._end = ""
        self._has_content = True
        """Whether no answer said that it has none."""
        self._answer: Response | None = None
        """The last answer of the document."""
        self._is_empty = False
        """Whether that has an error status and no content."""
        self._tasks = TaskSet()

    async def run(self) -> Rendered | NotRendered:
        """The document, or why there is none; `is_broken`: unless the browser is well."""
        context: BrowserContext | None = None
        try:
            async with self._clock.limit(self._clock.seconds):
                context = await self._open()
                return await self._load(context)
        except (TimeoutError, _Failed, RenderedTooLarge, BrowserError) as error:
            if self._traffic.fault:
                return self._fail(self._traffic.fault, retryable=False, is_at_fault=True)
            return self._explain(error, context)
        finally:
            self._captures.close()
            self._traffic.close()
            self._tasks.cancel()
            if context is not None and not self._stays:
                await self._close(context)

    def _explain(self, error: Exception, context: BrowserContext | None) -> NotRendered:
        """Why there is no document."""
        if isinstance(error, TimeoutError):
            where = [page.url[:_URL_CHARACTERS] for page in context.pages[:1]] if context else []
            became = [f"; it became {url}" for url in where if not url.startswith("http") and self._has_come]
            return self._fail(
                f"timeout after {self._clock.seconds:g} s: {self._stage}{''.join(became)}", is_broken=True
            )
        if isinstance(error, _Failed):
            text = str(error)
            is_broken = any(mark in text for mark in _CLOSED)  # perhaps with its browser
            more = {"retryable": error.retryable, "is_unanswered": error.is_unanswered, "is_broken": is_broken}
            return self._fail(text, **more)
        if not isinstance(error, BrowserError):
            return self._fail(str(error), retryable=False)
        text = self._end or _describe(error)
        if _is_mistake(text):
            return self._fail(f"wait: {text}", retryable=False)
        return self._fail(text, is_broken=True)

    def _fail(self, text: str, **more: bool) -> NotRendered:
        """`more`: as of NotRendered."""
        told = "; ".join([text, *self._traffic.notes.values()])[:MAX_TEXT]
        return NotRendered(text=told, is_crashed=_CRASH in text, **more)

    def _on_end(self, text: str) -> None:
        self._end = self._end or text
        self._ended.set()

    async def _open(self) -> BrowserContext:
        rule, visit = self._visit.rule, self._visit
        size = (rule.viewport.width, rule.viewport.height) if rule.viewport else _VIEWPORT
        context = await self._browser.new_context(
            user_agent=self._agent,
            viewport={"width": size[0], "height": size[1]},
            locale=rule.locale,
            timezone_id=rule.timezone,
            ignore_https_errors=not visit.verify,
            service_workers="block",
            accept_downloads=False,
            proxy={"server": visit.proxy, "username": visit.key, "password": "-", "bypass": "<-loopback>"},
        )
        context.set_default_timeout(0)  # the clock of the visit limits all
        if visit.cookies:
            await context.add_cookies([to_playwright(cookie) for cookie in visit.cookies])
        return context

    async def _close(self, context: BrowserContext) -> None:
        with contextlib.suppress(BrowserError, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await context.close()

    async def _load(self, context: BrowserContext) -> Rendered:
        page = await context.new_page()
        page.on("dialog", lambda dialog: self._tasks.start(_dismiss(dialog)))
        page.on("response", self._on_response)
        page.on("crash", lambda _: self._on_end(_CRASHED))
        page.on("close", lambda _: self._on_end(_CLOSED_ITSELF))
        devtools = await context.new_cdp_session(page)
        await self._traffic.watch(page, devtools)
        url, kept = self._visit.url, [_kept_of(self._select_own(self._visit.cookies), "")]
        while True:
            response = await self._go(page, url)
            if response is not None:
                self._has_come = True
                if self._is_empty:
                    return await self._rendered(context, page, response, b"")
                if not await self._is_html(response):
                    self._stage = "its end did not come"
                    body = await response.body()
                    return await self._rendered(context, page, response, body)
                await self._settle(page, devtools, response)
            if response is not None and not self._traffic.leads_to:
                break
            url, is_own = self._traffic.leads_to, _is_same(self._traffic.leads_to, self._visit.url)
            # a site that lets a browser in once it has set something has it load the page again
            if not is_own or len(kept) > _MAX_RELOADS:
                return await self._left(context)
            kept.append(await self._read_kept(context, page))
            if kept[-1] == kept[-2]:
                return await self._left(context)
            await page.goto("about:blank")  # from itself, a URL with a fragment is no further load
            self._traffic.go_again()
        self._stage = "its scripts let nothing else run"
        body = await write_document(devtools, self._captures, self._states, frames=self._visit.rule.frames)
        rendered = await self._rendered(context, page, response, body)
        wanted = self._visit.rule.files if response.status < _FIRST_ERROR else ()
        made = [await self._make_file(page, name) for name in wanted]
        files = tuple([one for one, _ in made])
        return replace(rendered, files=files, body=b"".join([body, *[content for _, content in made]]))

    async def _settle(self, page: Page, devtools: CDPSession, response: Response) -> None:
        """Wait until the page is used, or left for another document."""
        works = [
            self._use(page, devtools, is_error=response.status >= _FIRST_ERROR),
            self._traffic.leaves.wait(),
            self._ended.wait(),
        ]
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not self._traffic.leads_to:
                if self._end:
                    raise _Failed(self._end)
                tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()

    async def _make_file(self, page: Page, name: str) -> tuple[MadeFile, bytes]:
        """A file of the page. One that the browser cannot make leaves the page as it is."""
        self._stage = f"its {name} was not made"
        limit = max(100.0, self._clock.left * 1000)
        try:
            if name == "pdf":
                content = await page.pdf(print_background=True)
            else:
                content = await page.screenshot(full_page=True, animations="disabled", timeout=limit)
        except BrowserTimeout as error:
            raise _Failed(f"{name}: timeout") from error
        except BrowserError as error:
            await page.evaluate("0")  # if the page has gone, it is loaded again
            return MadeFile(name, problem=_describe(error)), b""
        most, setting = min((self._visit.max_file, "max_file"), (self._visit.max_body, "max_body"))
        if len(content) > most:
            return MadeFile(name, problem=f"it has {len(content):,} bytes, more than {most:,} ({setting})"), b""
        return MadeFile(name, len(content)), content

    async def _use(self, page: Page, devtools: CDPSession, *, is_error: bool) -> None:
        """Wait for what the page must reach, and act on it. An error is judged by its status, however it looks."""
        if is_error:
            await self._reach(page, "load")
            return
        await self._reach(page, self._visit.rule.wait or "load")
        self._traffic.may_go_on = True
        if self._visit.rule.actions:
            await self._traffic.forbid_windows()
        repeats = Repeats(page, self._traffic, partial(self._keep_state, devtools))
        for number, action in enumerate(self._visit.rule.actions, 1):
            await self._keep_state(devtools)
            await self._act(page, repeats, action, number)

    async def _keep_state(self, devtools: CDPSession) -> None:
        if self._states is not None:
            await self._states.add(devtools)

    async def _go(self, page: Page, url: str) -> Response | None:
        """The response of the document; None: it leads to another one."""
        try:
            return await page.goto(url, wait_until="commit")
        except BrowserError as error:
            if self._traffic.leads_to:
                return None
            text = _describe(error)
            if self._end or ("ERR_ABORTED" in text and self._has_content):
                raise _Failed(self._end or _CRASHED) from error
            if _EMPTY_ERROR in text and self._answer is not None:
                self._is_empty = True
                return self._answer
            code = next((code for code in _FINAL if code in text), None)
            if code is not None or text.startswith("net::ERR_CERT_"):
                reason = _FINAL[code] if code else _CERTIFICATE.format(text.partition(" ")[0])
                raise _Failed(reason, retryable=False) from error
            raise _Failed(text, is_unanswered=True) from error

    def _on_response(self, response: Response) -> None:
        self._has_content &= response.status not in _WITHOUT_CONTENT
        self._captures.take(response)
        if response.request.is_navigation_request() and response.frame.parent_frame is None:
            self._answer = response

    async def _left(self, context: BrowserContext) -> Rendered:
        if len(self._traffic.leads_to) > MAX_TEXT:
            raise _Failed("it leads to a URL that is too long", retryable=False)
        return Rendered(
            url=self._visit.url, status=302, headers=(), leads_to=self._traffic.leads_to, notes=self._traffic.notes,
            cookies=tuple(await self._list_cookies(context)),
        )  # fmt: skip

    async def _is_html(self, response: Response) -> bool:
        kind = (await response.header_value("content-type") or "text/html").partition(";")[0].strip().lower()
        return kind in ("text/html", "application/xhtml+xml")

    async def _rendered(self, context: BrowserContext, page: Page, response: Response, body: bytes) -> Rendered:
        if len(body) > self._visit.max_body:
            raise _Failed(f"body over {self._visit.max_body} bytes (max_body)", retryable=False)
        headers = [(h["name"].lower(), h["value"].replace("\n", ", ")) for h in await response.headers_array()]
        kept = [pair for pair in headers if pair[0] not in ("content-encoding", "content-length", "content-type")]
        html = await self._is_html(response)
        kind = "text/html; charset=utf-8" if html else dict(headers).get("content-type", "text/html")
        url = response.url if self._is_empty else page.url
        if not url.startswith(("http:", "https:")) or len(url) > MAX_TEXT:
            raise _Failed(f"it became {url[:_URL_CHARACTERS]}, which is no page of the web", retryable=False)
        try:
            given = check_headers((*kept, ("content-type", kind)))
        except ValueError as error:
            raise _Failed(str(error), retryable=False) from error
        return Rendered(
            url=url, status=response.status, headers=given, body=body, notes=self._traffic.notes,
            cookies=tuple(await self._list_cookies(context)),
        )  # fmt: skip

    async def _read_kept(self, context: BrowserContext, page: Page) -> list[str]:
        """What the page finds again when it is loaded once more: cookies and storages."""
        stored = ""
        with contextlib.suppress(BrowserError):  # a page that has no document has no storage
            stored = str(await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])"))
        return _kept_of(await self._list_cookies(context), stored)

    async def _list_cookies(self, context: BrowserContext) -> list[BrowserCookie]:
        """Those that the host of the page may set: those of other sites are not kept."""
        cookies = [from_playwright(one) for one in await context.cookies()]
        return self._select_own(cookies)[:MAX_COOKIES]

    def _select_own(self, cookies: Sequence[BrowserCookie]) -> list[BrowserCookie]:
        host = urlsplit(self._visit.url).hostname or ""
        return [one for one in cookies if one.belongs_to(host)]

    async def _reach(self, page: Page, state: str, frames: Sequence[str] = ()) -> None:
        """Wait for a selector, `idle`, so many seconds, or an event of the page. `frames`: as of `Target`."""
        self._stage = _STAGES.get(state, f"{state} did not come")
        if state == "load":
            await page.wait_for_load_state("load")
        elif state == "idle":
            while self._traffic.pending or monotonic() - self._traffic.last_request < _IDLE_SECONDS:
                await asyncio.sleep(0.05)
        elif _is_number(state):
            await asyncio.sleep(float(state))
        else:
            await Target(page, state, frames).appear("attached")

    async def _act(self, page: Page, repeats: Repeats, action: BrowserAction, number: int) -> None:
        self._stage = f"action {number} ({_title(action)}) was not done"
        left = max(0.1, self._clock.left)
        # what may be missing is waited for, for a part of the time that the page has left
        limit = min(left / 4, 3.0) if action.optional else left
        try:
            if action.optional:
                async with self._clock.limit(limit):
                    await self._await_targets(page, action)
                # cut short, a list would lack its end
                limit = left if action.scroll or action.until else limit
            async with self._clock.limit(limit):
                await self._do(page, repeats, action)
        except (BrowserError, TimeoutError, InVain) as error:
            text = _describe(error) if isinstance(error, BrowserError) else str(error) or f"timeout after {limit:g} s"
            if not action.optional or _is_mistake(text):
                text = f"action {number} ({_title(action)}): {text}"
                raise _Failed(text, retryable=not _is_mistake(text)) from error

    async def _await_targets(self, page: Page, action: BrowserAction) -> None:
        """Wait for what an action is done to: given up, it is not done later."""
        if action.click is not None:
            await Target(page, action.click, action.frame).click(trial=True)
        for selector in (*action.fill, *action.select):
            await Target(page, selector, action.frame).appear()

    async def _do(self, page: Page, repeats: Repeats, action: BrowserAction) -> None:
        if action.click is not None and action.until is None:
            await Target(page, action.click, action.frame).click()
        elif action.click is not None and action.until is not None:
            await repeats.click(Target(page, action.click, action.frame), action.click, action.until)
        for selector, text in action.fill.items():
            await Target(page, selector, action.frame).fill(text)
        for selector, text in action.select.items():
            await Target(page, selector, action.frame).select(text)
        if action.press is not None:
            await page.keyboard.press(action.press)
        if action.scroll is not None:
            await repeats.scroll(action.scroll.until)
        if action.wait is not None:
            await self._reach(page, action.wait, action.frame)


async def _dismiss(dialog: Any) -> None:
    await _quietly(dialog.accept() if dialog.type == "beforeunload" else dialog.dismiss())


async def _quietly(work: Awaitable[Any]) -> None:
    with contextlib.suppress(BrowserError):
        await work


def _kept_of(cookies: Sequence[BrowserCookie], stored: str) -> list[str]:
    texts = sorted(f"{one.domain} {one.path} {one.name}={one.value}" for one in cookies)
    return [*texts, "" if stored == "[{},{}]" else stored]


def _is_same(url: str, other: str) -> bool:
    return url.partition("#")[0] == other.partition("#")[0]


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _title(action: BrowserAction) -> str:
    given: Sequence[tuple[str, Any]] = [(name, getattr(action, name)) for name in BrowserAction.__struct_fields__]
    return next((f"{name} {value}" if isinstance(value, str) else name for name, value in given if value), "")


def _is_mistake(text: str) -> bool:
    """Whether an error is one of the defs: a selector or a key that means nothing to the browser."""
    return any(mark in text for mark in _MISTAKES)


def _describe(error: BrowserError) -> str:
    """The first line of what playwright says, without its own names."""
    if isinstance(error, BrowserTimeout):
        return "timeout"
    text = str(error).partition("\n")[0].partition("Call log")[0].strip()
    return re.sub(r"^\w+\.\w+: ", "", text)[:_TEXT_CHARACTERS]
