"""Judges each request of a page, of its frames and workers, at every redirect."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import CDPSession, Page, Route
from playwright.async_api import Error as BrowserError

from crawl_engine.browser.document import to_pattern
from crawl_engine.browser.messages import MAX_NOTES, MAX_TEXT, May, Verdict, Visit
from crawl_engine.browser.visit_clock import VisitClock
from crawl_engine.model.step import BLOCKED_WORDS
from crawl_engine.runtime.task_set import TaskSet

_MAX_REQUESTS = 2_000
_MAX_SOCKETS = 100
_MAX_DOCUMENTS = 100
_URL_CHARACTERS = 200
_ANY = to_pattern("*")
_NO_WINDOWS = "window.open = () => null"
"""Of the most usual way to open one, scripts see that it is blocked."""
_MAX_BODY = 2_000_000
_SMALL_BODIES = """(() => {
    const size = body => typeof body === 'string' ? body.length : body ? body.byteLength ?? body.size ?? 0 : 0;
    const limit = (owner, name, find, refuse) => {
        const own = owner[name];
        owner[name] = {[name](...given) {
            return size(find(given)) > %d ? refuse() : Reflect.apply(own, this, given);
        }}[name];
    };
    limit(window, 'fetch', given => given[1]?.body,
        () => new Promise((_, fail) => setTimeout(fail, 100, new TypeError('Failed to fetch'))));
    limit(XMLHttpRequest.prototype, 'send', given => given[0], () => { throw new DOMException('', 'NetworkError') });
    limit(Navigator.prototype, 'sendBeacon', given => given[1], () => false);
})()"""
"""Chromium tells its clients of a request with its whole body, several times over."""
Ask = Callable[[May], Awaitable[Verdict]]
"""Has the node judge a URL."""


class PageTraffic:
    """The requests of one page."""

    def __init__(self, visit: Visit, ask: Ask, clock: VisitClock, on_fault: Callable[[str], None]) -> None:
        """`clock`: stands while a document waits for its turn. `on_fault`: is told why the page must end."""
        self._visit = visit
        self._ask = ask
        self._clock = clock
        self._on_fault = on_fault
        self.fault = ""
        """Why the page must end: it costs the others of its browser too much."""
        self._sockets = 0
        self._sent_bytes = 0
        """Bytes of bodies and of messages of sockets."""
        self._page: Page | None = None
        self._devtools: CDPSession | None = None
        self._main_frame = ""
        self._document = ""
        """The request of the document."""
        self.leads_to = ""
        """Another document, for which the page is left."""
        self.leaves = asyncio.Event()
        self.may_go_on = False
        """Whether actions run, which may lead to further documents of the host."""
        self.pending: set[str] = set()
        self.last_request = monotonic()
        self._documents = 0
        self._requests = 0
        self._asked = 0
        self._open_hosts: set[str] = set()
        """Of which every URL may be asked for."""
        self._refused: dict[str, tuple[str, int]] = {}
        """By reason: the first URL that was refused, and how many were."""
        self._blocked_types = {BLOCKED_WORDS[word] for word in visit.rule.block if word in BLOCKED_WORDS}
        self._blocked_urls = [to_pattern(word) for word in visit.rule.block if word not in BLOCKED_WORDS]
        self._judging = TaskSet()

    @property
    def notes(self) -> dict[str, str]:
        """What the page was refused, by reason."""
        texts = {}
        for reason, (url, count) in list(self._refused.items())[:MAX_NOTES]:
            others = f" and {count - 1:,} more" if count > 1 else ""
            texts[reason] = f"{reason}: the page was not given {url[:_URL_CHARACTERS]}{others}"
        return texts

    async def watch(self, page: Page, devtools: CDPSession) -> None:
        """Judge what the page asks for from now on."""
        self._page, self._devtools = page, devtools
        await page.add_init_script(f"{_NO_WINDOWS};{_SMALL_BODIES % _MAX_BODY}")
        page.context.on("page", lambda window: self._judging.start(self._close_window(window)))
        await page.context.route_web_socket(_ANY, self._judge_socket)
        devtools.on("Fetch.requestPaused", lambda event: self._judging.start(self._judge(devtools, event)))
        devtools.on("Network.loadingFinished", lambda event: self._finished(event["requestId"]))
        devtools.on("Network.loadingFailed", lambda event: self._finished(event["requestId"]))
        devtools.on("Network.requestWillBeSent", self._sent)
        devtools.on("Network.responseReceivedExtraInfo", self._note_location)
        self._main_frame = (await devtools.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
        await devtools.send("Network.enable")
        await devtools.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})

    def go_again(self) -> None:
        """The page that was left for its own URL is loaded once more, in a turn of its own."""
        self.leads_to, self._documents, self.may_go_on = "", 0, False
        self.leaves.clear()

    async def forbid_windows(self) -> None:
        """Have windows ask for nothing, before an action that may open one.

        The driver asks here before their first request; that of a page without actions opens none.
        """
        assert self._page is not None
        await self._page.context.route(_ANY, self._judge_window)

    def close(self) -> None:
        self._judging.cancel()

    async def _judge_window(self, route: Route) -> None:
        is_own = False
        with contextlib.suppress(BrowserError):  # of the document of a window
            is_own = route.request.frame.page is self._page
        with contextlib.suppress(BrowserError):
            await (route.continue_() if is_own else route.abort())

    async def _close_window(self, window: Page) -> None:
        with contextlib.suppress(BrowserError):
            await window.close()

    async def _judge(self, devtools: CDPSession, event: dict[str, Any]) -> None:
        """Let one request go on, or not. Each hop of a redirect comes here."""
        asked, kind = event["request"], event.get("resourceType", "")
        url, error = asked["url"], "BlockedByClient"
        self._count_sent(sum(len(part.get("bytes", "")) for part in asked.get("postDataEntries", ())) * 3 // 4)
        with contextlib.suppress(BrowserError, ValueError):  # ValueError: no URL that can be judged
            if kind == "Document" and event.get("frameId") == self._main_frame:
                target = url + asked.get("urlFragment", "")
                error = "" if await self._may_leave_for(target, asked.get("method", "GET")) else "Aborted"
            elif not self._is_blocked(url, kind) and not await self._is_refused(url):
                error = ""
        with contextlib.suppress(BrowserError):
            if error:
                await devtools.send("Fetch.failRequest", {"requestId": event["requestId"], "errorReason": error})
            else:
                await devtools.send("Fetch.continueRequest", self._continue(event, url))

    def _continue(self, event: dict[str, Any], url: str) -> dict[str, Any]:
        """The request, with the headers of its host where it goes to that."""
        if not self._visit.headers or urlsplit(url)[:2] != urlsplit(self._visit.url)[:2]:
            return {"requestId": event["requestId"]}
        own = {name.lower() for name, _ in self._visit.headers}
        sent = [(name, value) for name, value in event["request"]["headers"].items() if name.lower() not in own]
        pairs = [{"name": name, "value": value} for name, value in (*sent, *self._visit.headers)]
        return {"requestId": event["requestId"], "headers": pairs}

    async def _may_leave_for(self, url: str, method: str) -> bool:
        """Whether the page goes on to a document. The node follows all others as redirects, by its rules."""
        self._documents += 1
        if self._documents > _MAX_DOCUMENTS:
            self._end(f"it went on to more than {_MAX_DOCUMENTS} documents")
            return False
        # a form that is sent cannot be followed as a redirect
        may_go_on = self.may_go_on or method != "GET" or self._documents == 1
        if may_go_on and _host(url) == _host(self._visit.url):
            with self._clock.stand():
                verdict = await self._ask_node(url, is_document=True)
            if not verdict.refusal:
                return True
        self.leads_to = self.leads_to or url
        self.leaves.set()
        return False

    def _is_blocked(self, url: str, kind: str) -> bool:
        self._requests += 1
        if self._requests > _MAX_REQUESTS:
            self._note(f"a page may have {_MAX_REQUESTS:,} requests", url)
            return True
        return (
            kind in self._blocked_types
            or not url.startswith(("http:", "https:", "data:", "blob:", "about:"))
            or any(pattern.fullmatch(url) for pattern in self._blocked_urls)
        )

    async def _is_refused(self, url: str) -> bool:
        """Whether the rules of the crawl keep the page from a part."""
        if not url.startswith(("http:", "https:")) or _host(url) in self._open_hosts:
            return False
        verdict = await self._ask_node(url, is_document=False)
        if verdict.refusal:
            self._note(verdict.refusal, url)
        elif verdict.is_for_host:
            self._open_hosts.add(_host(url))
        return bool(verdict.refusal)

    async def _ask_node(self, url: str, *, is_document: bool) -> Verdict:
        if len(url) > MAX_TEXT:
            return Verdict("its URL is too long")
        self._asked += 1
        return await self._ask(May(number=self._asked, url=url, is_document=is_document))

    def _note(self, reason: str, url: str) -> None:
        first, count = self._refused.get(reason, (url, 0))
        self._refused[reason] = first, count + 1

    async def _judge_socket(self, route: Any) -> None:
        self._sockets += 1
        if self._sockets > _MAX_SOCKETS:
            self._end(f"it opened more than {_MAX_SOCKETS} sockets")
            return  # they end with the page
        is_blocked = any(pattern.fullmatch(route.url) for pattern in self._blocked_urls)
        with contextlib.suppress(BrowserError):
            if is_blocked or await self._is_refused(route.url.replace("ws", "http", 1)):
                await route.close()
            else:
                server = route.connect_to_server()
                route.on_message(lambda message: self._pass_on(server, message))

    def _pass_on(self, server: Any, message: str | bytes) -> None:
        self._count_sent(len(message))
        if not self.fault:
            server.send(message)

    def _count_sent(self, count: int) -> None:
        self._sent_bytes += count
        if self._sent_bytes > self._visit.max_body:
            self._end(f"it sent more than {self._visit.max_body:,} bytes (max_body)")

    def _end(self, fault: str) -> None:
        """End the page, before its browser ends for all others."""
        if not self.fault:
            self.fault = fault
            self._on_fault(fault)
            if self._devtools is not None:  # at once: a page that floods its driver hears nothing else
                self._judging.start(_crash(self._devtools))

    def _sent(self, event: dict[str, Any]) -> None:
        number = event["requestId"]
        if event.get("type") == "Document" and event.get("frameId") == self._main_frame:
            self._document = number
        self.pending.add(number)
        self.last_request = monotonic()

    def _note_location(self, event: dict[str, Any]) -> None:
        """Note a redirect of the document that the browser does not follow, and so asks nothing for."""
        if event["requestId"] != self._document or event.get("statusCode", 0) // 100 != 3:
            return
        location = next((value for name, value in event["headers"].items() if name.lower() == "location"), "")
        with contextlib.suppress(ValueError):
            if urlsplit(location).scheme not in ("", "http", "https"):
                self.leads_to = self.leads_to or location

    def _finished(self, number: str) -> None:
        self.pending.discard(number)
        self.last_request = monotonic()


async def _crash(devtools: CDPSession) -> None:
    with contextlib.suppress(BrowserError):
        await devtools.send("Page.crash")


def _host(url: str) -> str:
    return urlsplit(url).netloc.lower()
