"""The failure of a fetch. Does not import the HTTP client, so that importing it is cheap."""

from typing import Literal

from engine.errors import CrawlError

FailureKind = Literal[
    "timeout",
    "connection",
    "dns",
    "tls",
    "too-large",
    "encoding",
    "protocol",
    "redirect",
    "url",
    "header",
    "variable",
    "secret",
]

_MAX_LENGTH = 200


class FetchFailed(CrawlError):
    """A request got no usable response. `retryable`: the same request may succeed later."""

    def __init__(self, reason: str, *, kind: FailureKind, retryable: bool, remedy: str = "") -> None:
        self.reason = one_line(reason)
        self.kind: FailureKind = kind
        self.retryable = retryable
        super().__init__(self.reason, remedy)


def one_line(text: str) -> str:
    """The text on one line, safe to show: unprintable characters as `?`, at most 200 characters."""
    words = " ".join(text.split())
    if not words.isprintable():
        words = "".join(c if c.isprintable() else "?" for c in words)
    return words if len(words) <= _MAX_LENGTH else words[: _MAX_LENGTH - 1] + "…"
