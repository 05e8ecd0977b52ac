"""Why a fetch gave no page, in one clean line. Knows no HTTP client, so that every room may catch it cheaply."""

from typing import Literal

from engine.errors import CrawlError

FailureKind = Literal[
    "timeout", "connection", "dns", "tls", "too-large", "encoding", "protocol", "redirect", "url", "header", "variable"
]

_MAX_LENGTH = 200


class FetchFailed(CrawlError):
    """No usable answer came. `retryable`: the same request may well succeed later."""

    def __init__(self, reason: str, *, kind: FailureKind, retryable: bool, remedy: str = "") -> None:
        self.reason = one_line(reason)
        self.kind: FailureKind = kind
        self.retryable = retryable
        super().__init__(self.reason, remedy)


def one_line(text: str) -> str:
    """The text with white space joined and unprintable characters as `?`, at most 200 characters: safe to show."""
    words = " ".join(text.split())
    if not words.isprintable():
        words = "".join(c if c.isprintable() else "?" for c in words)
    return words if len(words) <= _MAX_LENGTH else words[: _MAX_LENGTH - 1] + "…"
