"""Answers challenges of digest authentication, and authenticates in advance once a host sent one."""

import asyncio
import re
from itertools import pairwise
from urllib.request import parse_http_list

import httpx

from crawl_engine import urls
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.exchange import OutgoingRequest
from crawl_engine.http.request import user_and_password
from crawl_engine.http.response import decode_header
from crawl_engine.late_regex import late_regex
from crawl_engine.model.host import HostAuth

_MAX_KEPT = 1000
_CHALLENGE = "www-authenticate"
_MAX_CHALLENGE = 8_000
_UNANSWERABLE = "digest challenge that cannot be answered"
_NEW_CHALLENGE = late_regex(r"[\w!#$%&'*+.^`|~-]+(?: +[\w!#$%&'*+.^`|~-]+ *=.*)?", re.DOTALL)
"""The first item of a challenge in a list of several: a scheme, and its first parameter."""
_Key = tuple[str, HostAuth]


class DigestAuthenticator:
    """The last challenge of each host, in memory: its nonce serves until the host sends another one.

    The calculation is that of `httpx.DigestAuth`. A challenge is answered by a further request of the caller, so that
    it keeps the delay of its host and has a deadline of its own.
    """

    def __init__(self) -> None:
        self._states: dict[_Key, httpx.DigestAuth] = {}
        self._first: dict[_Key, asyncio.Event] = {}
        """Of the hosts that were asked: when the first request to each has ended."""

    async def wait_for_first(self, url: str, auth: HostAuth) -> None:
        """Wait while another request is the first one to its host: its challenge then serves this one, too."""
        first = self._first.get((urls.origin(url), auth))
        if first is not None:
            await first.wait()

    def begin(self, request: OutgoingRequest, auth: HostAuth) -> asyncio.Event | None:
        """Note that a request is sent. The first one to its host gets an event to set at its end."""
        key = urls.origin(request.target), auth
        if key in self._first:
            return None
        if len(self._first) >= _MAX_KEPT:
            self._first = {key: first for key, first in self._first.items() if not first.is_set()}
        first = self._first[key] = asyncio.Event()
        return first

    def authorize(self, request: OutgoingRequest, auth: HostAuth) -> None:
        """Set the header in advance if the host has sent a challenge before. Raises FetchFailed."""
        state = self._states.get((urls.origin(request.target), auth))
        if state is None or "Authorization" in request.headers:
            return
        probe = _probe(request)
        flow = state.auth_flow(probe)
        with _Unanswerable():
            next(flow)
        flow.close()
        request.headers["Authorization"] = probe.headers["Authorization"]

    def answer(
        self, request: OutgoingRequest, auth: HostAuth, raw_headers: tuple[tuple[bytes, bytes], ...]
    ) -> str | None:
        """The header that answers the first answerable challenge of a 401, or None. Raises FetchFailed."""
        values = [decode_header(value) for name, value in raw_headers if name.lower() == _CHALLENGE.encode()]
        failure: FetchFailed | None = None
        for value in _digest_challenges(values):
            if len(value) > _MAX_CHALLENGE or not value.isprintable():  # the header that answers it could not be sent
                failure = FetchFailed(_UNANSWERABLE, kind="protocol", retryable=False)
                continue
            state = httpx.DigestAuth(*user_and_password(auth))
            probe = _probe(request)
            flow = state.auth_flow(probe)
            try:
                with _Unanswerable():
                    next(flow)
                    flow.send(httpx.Response(401, headers=[(_CHALLENGE, value)], request=probe))
            except FetchFailed as error:
                failure = error
                continue
            flow.close()
            if len(self._states) >= _MAX_KEPT:
                self._states.clear()
            self._states[urls.origin(request.target), auth] = state
            return str(probe.headers["Authorization"])
        if failure is not None:
            raise failure
        return None


class _ExactUrl(httpx.URL):
    """A URL whose path is the one on the wire; httpx would re-encode it, and the server compares it."""

    def __init__(self, target: str) -> None:
        origin = urls.origin(target)
        super().__init__(origin)
        self._path = target[len(origin) :].encode() or b"/"

    @property
    def raw_path(self) -> bytes:
        """The path and the query."""
        return self._path


class _Unanswerable:
    """Turns errors of httpx about an odd challenge into a failed fetch."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        # a missing field is a ProtocolError, an unknown algorithm a KeyError, other ones are errors of the parser
        if isinstance(error, Exception):
            raise FetchFailed(_UNANSWERABLE, kind="protocol", retryable=False) from error


def _digest_challenges(values: list[str]) -> list[str]:
    """Those of the digest scheme. A header may hold several, separated by commas, as their parameters are."""
    challenges: list[str] = []
    for value in values:
        items = parse_http_list(value)
        starts = [index for index, item in enumerate(items) if not index or _NEW_CHALLENGE.fullmatch(item)]
        if len(starts) == 1:
            challenges.append(value)  # as written: the list has lost the backslashes of quoted texts
        else:
            challenges += [", ".join(items[start:end]) for start, end in pairwise([*starts, len(items)])]
    return [challenge for challenge in challenges if challenge.lower().startswith("digest ")]


def _probe(request: OutgoingRequest) -> httpx.Request:
    """What the calculation reads of a request: the method and the URL."""
    probe = httpx.Request(request.method, urls.origin(request.target))
    probe.url = _ExactUrl(request.target)
    return probe
