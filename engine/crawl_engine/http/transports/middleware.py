"""Runs plugin code around the chain: it changes, answers or repeats the requests of a host."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
from multidict import CIMultiDict

from crawl_engine import urls
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.exchange import OutgoingRequest, RequestTransport, WireBody, WireResponse
from crawl_engine.http.transports.body import BodyTransport
from crawl_engine.model.definition import Definitions
from crawl_engine.model.host import FIXED_HEADERS
from crawl_engine.model.step import PluginFile
from crawl_engine.plugins.plugin_errors import PluginUnavailable, describe_error

if TYPE_CHECKING:
    from crawl_engine.plugins.loading import PluginLoader

_DECODED = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that do not hold for a body that is decoded."""


class NamedMiddleware(NamedTuple):
    """An instance of a class with `handle`."""

    name: str
    instance: Any


class MiddlewareLoader:
    """The instances of one process. The newest plugin files count, also for jobs of earlier defs."""

    def __init__(self) -> None:
        self._version = -1
        self._files: tuple[PluginFile, ...] = ()
        self._loader: PluginLoader | None = None
        self._instances: dict[str, NamedMiddleware] = {}

    def find(
        self, names: Sequence[str], version: int, definitions: Callable[[int], Definitions]
    ) -> tuple[NamedMiddleware, ...]:
        """The middleware of a host's rule. Raises FetchFailed if one cannot be created."""
        if names and version > self._version:
            self._version = version
            self._renew(definitions(version).plugins)
        return tuple([self._instances.get(name) or self._create(name) for name in names])

    def _renew(self, files: tuple[PluginFile, ...]) -> None:
        if self._loader is None or files != self._files:
            from crawl_engine.plugins.loading import PluginLoader

            if self._loader is not None:
                self._loader.close()
            self._files, self._loader = files, PluginLoader(files)
            self._instances.clear()

    def _create(self, name: str) -> NamedMiddleware:
        assert self._loader is not None
        try:
            made = self._instances[name] = NamedMiddleware(name, self._loader.create(name, {}))
        except PluginUnavailable as error:
            raise _fail(name, str(error)) from error
        return made


class MiddlewareTransport(httpx.AsyncBaseTransport):
    """For requests with middleware: the first is the outermost. Each `send` takes its own turn at the host."""

    def __init__(self, inner: RequestTransport, *, deadline: float, max_body: int) -> None:
        """`deadline`: seconds that the code may take, beside its requests and their turns."""
        self._inner = inner
        self._deadline = deadline
        self._own = BodyTransport(_OwnAnswer(), deadline=deadline, max_body=max_body)

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        assert isinstance(request, OutgoingRequest)
        call = _Call(self._inner, request, self._deadline)
        response = await call.run()
        received = call.find(response)
        if received is not None:
            return received
        if request.terms.share is not None:
            request.terms.share.release()
        request.extensions = {"answer": response}
        return await self._own.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Call:
    """One request of a job in its middleware."""

    def __init__(self, inner: RequestTransport, outgoing: OutgoingRequest, deadline: float) -> None:
        self._inner = inner
        self._outgoing = outgoing
        self._left = deadline
        self._deadline = deadline
        headers = httpx.Headers(list(outgoing.headers.items()), encoding="utf-8")
        self._given = httpx.Request(outgoing.method, outgoing.url, headers=headers, content=outgoing.body or None)
        self._url = self._given.url
        self._received: dict[int, tuple[httpx.Response, list[tuple[str, str]], WireResponse]] = {}
        self._sending = 0
        self._failure: Exception | None = None
        """What the last request raised."""
        self._running = ""

    async def run(self) -> httpx.Response:
        """The response of the outermost middleware. Raises FetchFailed, and what a request raises."""
        try:
            async with asyncio.timeout(self._left) as self._limit:
                return await self._handle(0, self._given)
        except TimeoutError:
            text = f"timeout after {self._deadline:g} s in middleware {self._running}"
            raise FetchFailed(text, kind="timeout", retryable=True) from None

    def find(self, response: httpx.Response) -> WireResponse | None:
        """What the chain gave for this response; None: the middleware made or changed it."""
        _, headers, received = self._received.get(id(response), (None, [], None))
        is_same = received is not None and response.status_code == received.status_code
        return received if is_same and response.headers.multi_items() == headers else None

    async def _handle(self, number: int, request: httpx.Request) -> httpx.Response:
        if number == len(self._outgoing.terms.middleware):
            return await self._send(request)
        name, instance = self._outgoing.terms.middleware[number]
        self._running = name
        try:
            handling = instance.handle(request, partial(self._handle, number + 1))
            if not inspect.isawaitable(handling):
                raise _fail(name, "`handle` must be `async def`")
            response = await handling
        except (Exception, SystemExit) as error:
            if error is self._failure or isinstance(error, FetchFailed):
                raise
            raise _fail(name, describe_error(error)) from error
        if not isinstance(response, httpx.Response):
            raise _fail(name, f"`handle` must return an httpx.Response, not {type(response).__name__}")
        self._running = self._outgoing.terms.middleware[number - 1][0] if number else name
        return response

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Send a request through the chain; meanwhile the time of the code stands still."""
        outgoing = await self._to_outgoing(request)
        now, ends_at = asyncio.get_running_loop().time, self._limit.when()
        if ends_at is not None:
            self._left = ends_at - now()
            self._limit.reschedule(None)
        self._sending += 1
        try:
            response = await self._inner.handle_async_request(outgoing)
        except Exception as error:
            self._failure = error
            raise
        finally:
            self._sending -= 1
            if not self._sending:
                self._limit.reschedule(now() + self._left)
        shown = httpx.Response(
            response.status_code,
            headers=[pair for pair in response.fetched.headers if pair[0] not in _DECODED],
            content=response.fetched.body,
            request=request,
        )
        self._received[id(shown)] = (shown, shown.headers.multi_items(), response)
        return shown

    async def _to_outgoing(self, request: object) -> OutgoingRequest:
        """The request as the chain sends it. Raises FetchFailed if it leaves the host."""
        if not isinstance(request, httpx.Request):
            raise _fail(self._running, f"`send` takes an httpx.Request, not {type(request).__name__}")
        outgoing = self._outgoing
        target = outgoing.target
        if request.url != self._url:
            target = urls.normalize(str(request.url)) or ""
            if not target or urls.origin(target) != urls.origin(outgoing.target):
                raise _fail(self._running, f"a request must stay on {urls.origin(outgoing.target)}")
        if not self._sending and outgoing.terms.share is not None:
            outgoing.terms.share.release()  # of the response before
        written = zip(request.headers.raw, request.headers.multi_items(), strict=True)
        headers = CIMultiDict(
            [(raw.decode("ascii"), value) for (raw, _), (name, value) in written if name not in FIXED_HEADERS]
        )
        return OutgoingRequest(request.method, target, headers, await request.aread(), outgoing.terms)


class _OwnAnswer(httpx.AsyncBaseTransport):
    """Gives the response that a middleware made, as a wire does."""

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        assert isinstance(request, OutgoingRequest)
        answer = request.extensions["answer"]
        headers = tuple([pair for pair in answer.headers.raw if pair[0].lower().decode() not in _DECODED])
        return WireResponse(answer.status_code, headers, _ReadBody(await answer.aread()), request)


class _ReadBody(WireBody):
    """A body in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.declared = len(content)
        self.received = 0

    async def read_piece(self, size: int) -> bytes:
        piece = self._content[self.received : self.received + size]
        self.received += len(piece)
        return piece

    @property
    def at_end(self) -> bool:
        return self.received == len(self._content)

    def close(self) -> None:
        pass


def _fail(name: str, text: str) -> FetchFailed:
    return FetchFailed(f"middleware {name}: {text}", kind="middleware", retryable=False)
