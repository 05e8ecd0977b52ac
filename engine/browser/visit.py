"""Loads one page in a context of its own, acts on it, and gives the document that it became."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace
from playwright.async_api import Browser, BrowserContext, CDPSession, Page, Response
from playwright.async_api import Error as BrowserError
from playwright.async_api import TimeoutError as BrowserTimeout

from engine.browser.document import Captures, RenderedTooLarge, to_pattern, write_document
from engine.browser.messages import BrowserCookie, MadeFile, NotRendered, Rendered, Visit
from engine.model.step import BLOCKED_WORDS, BrowserAction

_VIEWPORT = (1280, 720)
_IDLE_SECONDS = 0.5
"""Without a request, after which a page is idle."""
_SCROLL_SECONDS = 0.25
_STILL = 4
"""So many times in a row nothing more came: that is the end."""
_CLOSE_SECONDS = 5.0
_MAX_REQUESTS = 2_000
_TEXT_CHARACTERS = 300


class _Failed(Exception):
    """The page could not be used."""

    def __init__(self, text: str, *, retryable: bool = True, is_unanswered: bool = False) -> None:
        super().__init__(text)
        self.retryable = retryable
        self.is_unanswered = is_unanswered


class PageVisit:
    """One page. `ask` has the node decide on a further document."""

    def __init__(self, browser: Browser, visit: Visit, agent: str, ask: Callable[[str], Awaitable[bool]]) -> None:
        """`agent`: the User-Agent."""
        self._browser = browser
        self._visit = visit
        self._agent = agent
        self._ask = ask
        self._ends_at = monotonic() + visit.seconds
        self._main_frame = ""
        self._leads_to = ""
        self._is_leaving = asyncio.Event()
        self._may_go_on = False
        """Whether actions run, which may lead to further documents."""
        self._documents = 0
        self._requests = 0
        self._pending: set[str] = set()
        self._last_request = monotonic()
        self._captures = Captures(visit.rule, visit.max_body)
        self._blocked_types = {BLOCKED_WORDS[word] for word in visit.rule.block if word in BLOCKED_WORDS}
        self._blocked_urls = [to_pattern(word) for word in visit.rule.block if word not in BLOCKED_WORDS]
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> Rendered | NotRendered:
        context: BrowserContext | None = None
        try:
            async with asyncio.timeout(self._visit.seconds):
                context = await self._open()
                return await self._load(context)
        except TimeoutError:
            return NotRendered(text=f"timeout after {self._visit.seconds:g} s", is_late=True)
        except _Failed as failure:
            return NotRendered(text=str(failure), retryable=failure.retryable, is_unanswered=failure.is_unanswered)
        except RenderedTooLarge as error:
            return NotRendered(text=str(error), retryable=False)
        except BrowserError as error:
            return NotRendered(text=_describe(error), is_broken=not self._browser.is_connected())
        finally:
            self._captures.close()
            for task in self._tasks:
                task.cancel()
            if context is not None:
                await self._close(context)

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
        context.set_default_timeout(visit.seconds * 1000)
        if visit.cookies:
            await context.add_cookies([_to_playwright(cookie) for cookie in visit.cookies])
        return context

    async def _close(self, context: BrowserContext) -> None:
        with contextlib.suppress(BrowserError, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await context.close()

    async def _load(self, context: BrowserContext) -> Rendered:
        page = await context.new_page()
        context.on("page", lambda other: self._start(self._drop(other)) if other is not page else None)
        page.on("dialog", lambda dialog: self._start(_dismiss(dialog)))
        page.on("response", self._captures.take)
        await page.route_web_socket(re.compile(""), self._on_socket)
        devtools = await context.new_cdp_session(page)
        devtools.on("Fetch.requestPaused", lambda event: self._start(self._judge(devtools, event)))
        devtools.on("Network.loadingFinished", lambda event: self._finished(event["requestId"]))
        devtools.on("Network.loadingFailed", lambda event: self._finished(event["requestId"]))
        devtools.on("Network.requestWillBeSent", lambda event: self._sent(event["requestId"]))
        self._main_frame = (await devtools.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
        await devtools.send("Network.enable")
        await devtools.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})
        response = await self._go(page)
        if response is None:
            return self._left()
        if not await self._is_html(response):
            body = await response.body()
            return await self._rendered(context, page, response, body)
        using, leaving = asyncio.create_task(self._use(page)), asyncio.create_task(self._is_leaving.wait())
        try:
            await asyncio.wait((using, leaving), return_when=asyncio.FIRST_COMPLETED)
            if self._leads_to:
                return self._left()
            using.result()
        finally:
            using.cancel()
            leaving.cancel()
        rule = self._visit.rule
        body = await write_document(page.main_frame, self._captures, frames=rule.frames)
        rendered = await self._rendered(context, page, response, body)
        made = [await self._make_file(page, name) for name in rule.files]
        files = tuple([one for one, _ in made])
        return replace(rendered, files=files, body=b"".join([body, *[content for _, content in made]]))

    async def _make_file(self, page: Page, name: str) -> tuple[MadeFile, bytes]:
        """A file of the page. One that the browser cannot make leaves the page as it is."""
        limit = max(100.0, (self._ends_at - monotonic()) * 1000)
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

    async def _use(self, page: Page) -> None:
        """Wait for what the page must reach, and act on it."""
        await self._reach(page, self._visit.rule.wait or "load")
        self._may_go_on = True
        for number, action in enumerate(self._visit.rule.actions, 1):
            await self._act(page, action, number)

    async def _go(self, page: Page) -> Response | None:
        """The response of the document; None: it leads to another one."""
        try:
            return await page.goto(self._visit.url, wait_until="commit")
        except BrowserError as error:
            if self._leads_to:
                return None
            if "ERR_ABORTED" in str(error):  # a download, or a status without a document
                raise _Failed("the browser shows no document of this URL", retryable=False) from error
            raise _Failed(_describe(error), is_unanswered=True) from error

    def _left(self) -> Rendered:
        return Rendered(url=self._visit.url, status=302, headers=(), leads_to=self._leads_to)

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
        return Rendered(
            url=page.url, status=response.status, headers=(*kept, ("content-type", kind)),
            cookies=tuple([_to_cookie(one) for one in await context.cookies()]),
            body=body,
        )  # fmt: skip

    async def _judge(self, devtools: CDPSession, event: dict[str, Any]) -> None:
        """Let one request go on, or not. Each hop of a redirect comes here."""
        url, kind = event["request"]["url"], event.get("resourceType", "")
        is_document = kind == "Document" and event.get("frameId") == self._main_frame
        reason = None
        if is_document:
            reason = await self._judge_document(url)
        elif self._is_blocked(url, kind):
            reason = "BlockedByClient"
        with contextlib.suppress(BrowserError):
            if reason is None:
                await devtools.send("Fetch.continueRequest", self._continue(event, url))
            else:
                await devtools.send("Fetch.failRequest", {"requestId": event["requestId"], "errorReason": reason})

    def _continue(self, event: dict[str, Any], url: str) -> dict[str, Any]:
        """The request, with the headers of its host where it goes to that."""
        if not self._visit.headers or urlsplit(url)[:2] != urlsplit(self._visit.url)[:2]:
            return {"requestId": event["requestId"]}
        own = {name.lower() for name, _ in self._visit.headers}
        sent = [(name, value) for name, value in event["request"]["headers"].items() if name.lower() not in own]
        pairs = [{"name": name, "value": value} for name, value in (*sent, *self._visit.headers)]
        return {"requestId": event["requestId"], "headers": pairs}

    async def _judge_document(self, url: str) -> str | None:
        """Why the page is not left for this document now: the node follows it as a redirect, by its rules."""
        self._documents += 1
        if self._documents == 1:
            return None
        if self._may_go_on and _host(url) == _host(self._visit.url) and await self._ask(url):
            return None
        self._leads_to = self._leads_to or url
        self._is_leaving.set()
        return "Aborted"

    def _is_blocked(self, url: str, kind: str) -> bool:
        self._requests += 1
        return (
            self._requests > _MAX_REQUESTS
            or kind in self._blocked_types
            or not url.startswith(("http:", "https:", "data:", "blob:", "about:"))
            or any(pattern.fullmatch(url) for pattern in self._blocked_urls)
        )

    def _on_socket(self, route: Any) -> None:
        if any(pattern.fullmatch(route.url) for pattern in self._blocked_urls):
            self._start(_quietly(route.close()))
        else:
            route.connect_to_server()

    def _sent(self, number: str) -> None:
        self._pending.add(number)
        self._last_request = monotonic()

    def _finished(self, number: str) -> None:
        self._pending.discard(number)
        self._last_request = monotonic()

    async def _reach(self, page: Page, state: str) -> None:
        """Wait for a selector, `idle`, so many seconds, or an event of the page."""
        if state == "load":
            await page.wait_for_load_state("load")
        elif state == "idle":
            while self._pending or monotonic() - self._last_request < _IDLE_SECONDS:
                await asyncio.sleep(0.05)
        elif _is_number(state):
            await asyncio.sleep(float(state))
        else:
            await page.wait_for_selector(state, state="attached")

    async def _act(self, page: Page, action: BrowserAction, number: int) -> None:
        left = max(0.1, self._ends_at - monotonic())
        # what may be missing is waited for, for a part of the time that the page has left
        limit = min(left / 4, 3.0) if action.optional else left
        try:
            async with asyncio.timeout(limit):
                await self._do(page, action, limit * 1000)
        except (BrowserError, TimeoutError) as error:
            if not action.optional:
                text = f"timeout after {limit:g} s" if isinstance(error, TimeoutError) else _describe(error)
                raise _Failed(f"action {number} ({_title(action)}): {text}") from error

    async def _do(self, page: Page, action: BrowserAction, limit: float) -> None:
        if action.click is not None:
            await page.click(action.click, timeout=limit)
        for selector, text in action.fill.items():
            await page.fill(selector, text, timeout=limit)
        for selector, text in action.select.items():
            await page.select_option(selector, text, timeout=limit)
        if action.press is not None:
            await page.keyboard.press(action.press)
        if action.scroll is not None:
            await self._scroll(page, action.scroll.until)
        if action.wait is not None:
            await self._reach(page, action.wait)

    async def _scroll(self, page: Page, until: str) -> None:
        if until.isdigit():
            for _ in range(int(until)):
                await page.evaluate("window.scrollBy(0, window.innerHeight)")
                await self._settle()
            return
        height, still = -1, 0
        while still < _STILL:
            if until != "end" and await page.query_selector(until) is not None:
                return
            await page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
            await self._settle()
            now = await page.evaluate("document.documentElement.scrollHeight")
            still = still + 1 if now == height and not self._pending else 0
            height = now
        if until != "end":
            raise _Failed(f"{until} did not come")

    async def _settle(self) -> None:
        await asyncio.sleep(_SCROLL_SECONDS)

    async def _drop(self, page: Page) -> None:
        """Close a window that the page opened."""
        await _quietly(page.close())

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _dismiss(dialog: Any) -> None:
    await _quietly(dialog.accept() if dialog.type == "beforeunload" else dialog.dismiss())


async def _quietly(work: Awaitable[Any]) -> None:
    with contextlib.suppress(BrowserError):
        await work


def _host(url: str) -> str:
    return urlsplit(url).netloc.lower()


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _title(action: BrowserAction) -> str:
    given: Sequence[tuple[str, Any]] = [(name, getattr(action, name)) for name in BrowserAction.__struct_fields__]
    return next((f"{name} {value}" if isinstance(value, str) else name for name, value in given if value), "")


def _describe(error: BrowserError) -> str:
    """The first line of what playwright says, without its own names."""
    if isinstance(error, BrowserTimeout):
        return "timeout"
    text = str(error).partition("\n")[0].partition("Call log")[0].strip()
    return re.sub(r"^\w+\.\w+: ", "", text)[:_TEXT_CHARACTERS]


def _to_playwright(cookie: BrowserCookie) -> Any:
    return {
        "name": cookie.name, "value": cookie.value, "domain": cookie.domain, "path": cookie.path,
        "expires": cookie.expires, "secure": cookie.secure, "httpOnly": cookie.http_only,
    }  # fmt: skip


def _to_cookie(given: Any) -> BrowserCookie:
    return BrowserCookie(
        name=given["name"], value=given["value"], domain=given["domain"], path=given["path"],
        expires=given.get("expires", -1.0), secure=given.get("secure", False), http_only=given.get("httpOnly", False),
    )  # fmt: skip
