"""Posts the rows of an appender of the type `http` to its receiver: a JSON array for each batch.

A status of 200 to 299 acknowledges the batch. Redirects are not followed: a POST would become a GET, and
headers with credentials would reach another host.
"""

import asyncio
import hashlib
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import quote

import httpx

from crawl_engine.append.loop.lifeline import StopSignal
from crawl_engine.append.loop.turns import OutputFailed, SupervisorGone
from crawl_engine.append.send.delivery_batch import DeliveryBatch
from crawl_engine.http.rate_limit import read_rate_limit
from crawl_engine.model.variables import UnusableVariable, render_secrets

_SLICE_SECONDS = 0.1
_BODY_SECONDS, _BODY_BYTES = 1.0, 64 * 1024
"""How much of an answer is read, so that its connection can be used again."""
_MAX_RETRY_AFTER = 600.0
_ENDED = ("Server disconnected", "peer closed connection")
"""How the library says that a connection ended."""
_WANTS_CREDENTIALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED)


class HttpSender:
    """A `DeliveryTarget` at a URL. Its connection stays open from batch to batch."""

    def __init__(self, url: str, headers: Mapping[str, str], *, limit: float, stop: StopSignal) -> None:
        """`url` and `headers`: as in the defs, with variables. `limit`: seconds for one batch."""
        self._url = url
        self._headers = headers
        self._limit = limit
        self._stop = stop
        self._runner = asyncio.Runner()
        self._client: httpx.AsyncClient | None = None

    def deliver(self, batch: DeliveryBatch, data_def: str) -> None:  # noqa: ARG002 - each object names its own
        """Post the batch. Raises OutputFailed, SupervisorGone."""
        self._runner.run(self._deliver(b"[" + b",\n".join(batch.lines) + b"]"))

    def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            self._runner.run(client.aclose())
        self._runner.close()

    async def _deliver(self, body: bytes) -> None:
        response = await self._wait_for(asyncio.ensure_future(self._send(body)))
        try:
            await _read_rest(response)
        finally:
            await response.aclose()
        if not response.is_success:
            raise OutputFailed(_describe_refusal(response), retry_after=_retry_after(response))

    async def _send(self, body: bytes) -> httpx.Response:
        """The answer as soon as its status is there. Raises OutputFailed."""
        if self._client is None:
            self._client = httpx.AsyncClient(trust_env=False, timeout=None)
        key = hashlib.blake2b(body, digest_size=16).hexdigest()
        try:
            own = {name: render_secrets(value, os.environ) for name, value in self._headers.items()}
            url = render_secrets(self._url, os.environ, lambda value: quote(value, safe=""))
        except UnusableVariable as error:
            raise OutputFailed(str(error)) from None
        headers = {"Content-Type": "application/json"} | own | {"Idempotency-Key": key}
        try:
            encoded = httpx.Headers(headers, encoding="utf-8")
            request = self._client.build_request("POST", url, content=body, headers=encoded)
            return await self._client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, OSError) as error:
            raise OutputFailed(_describe(error)) from None

    async def _wait_for(self, sending: "asyncio.Future[httpx.Response]") -> httpx.Response:
        """The answer, if it comes within the limit. Raises OutputFailed, SupervisorGone."""
        deadline = time.monotonic() + self._limit
        while not sending.done():
            if self._stop.supervisor_gone or time.monotonic() >= deadline:
                sending.cancel()
                await asyncio.wait([sending])
                if self._stop.supervisor_gone:
                    raise SupervisorGone
                raise OutputFailed(f"took longer than its limit of {self._limit:g} s")
            await asyncio.wait([sending], timeout=_SLICE_SECONDS)
        return sending.result()


async def _read_rest(response: httpx.Response) -> None:
    """Read the body; a longer or slower one costs the connection."""
    read = 0
    with suppress(httpx.HTTPError, httpx.StreamError, TimeoutError):
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in response.aiter_raw():
                read += len(chunk)
                if read > _BODY_BYTES:
                    return


def _describe(error: Exception) -> str:
    """What failed, in our own words: the library quotes headers, URLs and answers, which may have secrets in them."""
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return f"no connection: {error}"
        case httpx.RemoteProtocolError() if not str(error).startswith(_ENDED):
            return "the answer is not valid HTTP"
        case httpx.RemoteProtocolError() | httpx.ReadError() | httpx.WriteError():
            return "the connection ended without an answer"
        case httpx.InvalidURL() | httpx.UnsupportedProtocol():
            return "cannot be sent: its URL is not valid"
        case httpx.LocalProtocolError() | UnicodeError():
            return "cannot be sent: a header contains invalid characters"
    return f"cannot be sent: {type(error).__name__}"


def _describe_refusal(response: httpx.Response) -> str:
    # the phrase of the standard: a receiver's own may repeat our request
    said = f"answered {response.status_code} {httpx.codes.get_reason_phrase(response.status_code)}".strip()
    if response.has_redirect_location:
        return f"{said}, which is not followed: write the URL that takes rows"
    if response.status_code in _WANTS_CREDENTIALS:
        return f"{said}: set what it asks for in `headers`"
    return said


def _retry_after(response: httpx.Response) -> float:
    """The seconds that the receiver asks to wait; 0 if it does not say, or not validly."""
    wait = read_rate_limit(response.status_code, response.headers.multi_items()).wait
    return min(wait or 0.0, _MAX_RETRY_AFTER)
