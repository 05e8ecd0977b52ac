"""The TLS contexts of hosts."""

import ssl

from crawl_engine.http.errors import FetchFailed
from crawl_engine.model.host import TlsRule

_DEFAULT = TlsRule()
_MAX_KEPT = 100
_ONLY_HTTP1, _ALSO_HTTP2 = ["http/1.1"], ["h2", "http/1.1"]
"""What a handshake offers."""


class TlsContexts:
    """One context for each rule. Files are read when a rule is first used."""

    def __init__(self) -> None:
        self._contexts: dict[tuple[TlsRule, bool], ssl.SSLContext] = {}

    def find(self, rule: TlsRule | None, *, http2: bool) -> ssl.SSLContext:
        """The context. Raises FetchFailed if a file of the rule cannot be used any more."""
        key = (rule or _DEFAULT, http2)
        context = self._contexts.get(key)
        if context is None:
            if len(self._contexts) >= _MAX_KEPT:
                self._contexts.clear()
            context = self._contexts[key] = _make(*key)
        return context


def _make(rule: TlsRule, http2: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=rule.ca)
        if rule.client is not None:
            context.load_cert_chain(rule.client, password=lambda: "")  # a password is not asked for on a terminal
    except (OSError, ValueError) as error:
        file = rule.client if rule.ca is None else rule.ca if rule.client is None else f"{rule.ca} or {rule.client}"
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise FetchFailed(
            f"TLS: cannot use {file}: {str(reason).replace('_', ' ').lower()}",
            kind="tls",
            retryable=False,
            remedy="Restore the file, run `crawl-console check`, and retry the failed jobs.",
        ) from error
    if not rule.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(_ALSO_HTTP2 if http2 else _ONLY_HTTP1)
    return context
