"""Signs the requests to hosts whose rule says so: each one, or those of hosts that ask for it."""

import os
from functools import partial

from crawl_engine import urls
from crawl_engine.errors import UsageError
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.exchange import OutgoingRequest
from crawl_engine.http.response import decode_header
from crawl_engine.http.signing.message import PLAIN, Wanted, read_accepted, sign_request
from crawl_engine.model.host import SignRule
from crawl_engine.model.variables import UnusableVariable, render_secrets
from crawl_engine.runtime.signing_key import SigningKey, read_key

_MAX_KEPT = 1_000
_ACCEPTED = b"accept-signature"
_MAX_ACCEPTED = 8_000


class RequestSigner:
    """Of one process. A key is read for each request, so that a new one in its file counts at once."""

    def __init__(self) -> None:
        self._keys: dict[str, SigningKey] = {}
        self._wanted: dict[str, Wanted] = {}
        """What hosts asked for, by origin."""

    def attach(self, request: OutgoingRequest, rule: SignRule, *, is_answer: bool) -> None:
        """Have a request signed each time that it is sent. Raises FetchFailed if the key cannot be used.

        `is_answer`: its host has just asked for a signature, and is not answered twice.
        """
        key = self._read_key(rule)
        if rule.when == "always" or urls.origin(request.target) in self._wanted:
            request.terms.sign = partial(self._sign, key, rule)
        if not is_answer:
            request.terms.note_wish = partial(self._note_wish, request)

    def _read_key(self, rule: SignRule) -> SigningKey:
        try:
            text = render_secrets(rule.key, os.environ)
        except UnusableVariable as error:
            raise _unusable(str(error)) from None
        if text not in self._keys:
            try:
                self._keys[text] = read_key(rule.key)
            except UsageError as error:
                raise _unusable(error.message) from None
        return self._keys[text]

    def _sign(self, key: SigningKey, rule: SignRule, request: OutgoingRequest) -> None:
        origin = urls.origin(request.target)
        wanted = self._wanted.get(origin, PLAIN)
        if wanted.nonce is not None:
            self._wanted[origin] = wanted._replace(nonce=None)  # it serves once
        request.headers.update(sign_request(key, rule.agent, request.method, request.target, wanted))

    def _note_wish(self, request: OutgoingRequest, raw_headers: tuple[tuple[bytes, bytes], ...]) -> bool:
        """Whether a refusal asks for a signature that the request did not have."""
        values = [decode_header(value) for name, value in raw_headers if name.lower() == _ACCEPTED]
        text = ", ".join(values)
        wanted = read_accepted(text) if text and len(text) <= _MAX_ACCEPTED else None
        if wanted is None or (
            request.terms.sign is not None and wanted.nonce is None and wanted == self._signed(request)
        ):
            return False
        if len(self._wanted) >= _MAX_KEPT:
            self._wanted.clear()
        self._wanted[urls.origin(request.target)] = wanted
        return True

    def _signed(self, request: OutgoingRequest) -> Wanted:
        return self._wanted.get(urls.origin(request.target), PLAIN)


def _unusable(reason: str) -> FetchFailed:
    return FetchFailed(reason, kind="variable", retryable=False)
