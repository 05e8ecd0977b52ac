"""Signs the requests to hosts whose rule says so: each one, or those of hosts that ask for it."""

from functools import partial

from crawl_engine import urls
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.exchange import OutgoingRequest
from crawl_engine.http.response import decode_header
from crawl_engine.http.signing.message import PLAIN, read_requested, sign_request
from crawl_engine.model.host import RequestedSignature, SignRule
from crawl_engine.runtime.signing_key import SigningKey, UnusableKey, check_file, read_text

_MAX_KEPT = 1_000
_REQUESTED = b"accept-signature"
_MAX_REQUESTED = 8_000


class RequestSigner:
    """Of one process. A key is read for each request, so that a new one in its file counts at once."""

    def __init__(self) -> None:
        self._keys: dict[str, SigningKey] = {}
        self._requested: dict[str, RequestedSignature] = {}
        """What hosts asked for, by origin; without nonces, which are for one request."""

    def attach(self, request: OutgoingRequest, rule: SignRule, requested: RequestedSignature | None) -> None:
        """Have a request signed each time that it is sent. Raises FetchFailed if the key cannot be used.

        `requested`: what its host has just asked for; it is not answered twice.
        """
        key, origin = self._read_key(rule), urls.origin(request.target)
        signed = requested or self._requested.get(origin) or (PLAIN if rule.when == "always" else None)
        if signed is not None:
            request.terms.sign = partial(_sign, key, rule.agent, signed)
        if requested is None:
            request.terms.find_requested = partial(self._find_requested, origin, signed)

    def _read_key(self, rule: SignRule) -> SigningKey:
        try:
            text = read_text(rule.key)
            check_file(rule.key)
            if text not in self._keys:
                self._keys[text] = SigningKey.from_pem(text)
        except UnusableKey as error:
            reason = f"the key of `sign` cannot be used: {error}"
            raise FetchFailed(reason, kind="variable", retryable=True) from None  # its file may be being replaced
        return self._keys[text]

    def _find_requested(
        self, origin: str, signed: RequestedSignature | None, raw_headers: tuple[tuple[bytes, bytes], ...]
    ) -> RequestedSignature | None:
        """The signature that a refusal asks for; None: none, or none but that which the request had."""
        text = ", ".join([decode_header(value) for name, value in raw_headers if name.lower() == _REQUESTED])
        requested = read_requested(text) if text and len(text) <= _MAX_REQUESTED else None
        if requested is None:
            return None
        if signed is not None and requested.nonce is None and set(requested.components) <= set(signed.components):
            return None
        if len(self._requested) >= _MAX_KEPT:
            self._requested.clear()
        self._requested[origin] = requested._replace(nonce=None)
        return requested


def _sign(key: SigningKey, agent: str, requested: RequestedSignature, request: OutgoingRequest) -> None:
    request.headers.update(sign_request(key, agent, request.method, request.target, requested))
