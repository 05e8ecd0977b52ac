"""Parses robots.txt (RFC 9309)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protego import Protego

MAX_ROBOTS_BYTES = 500 * 1024
"""Bytes of a robots.txt to read; the rest is ignored, as RFC 9309 allows."""


class RobotsRules:
    """The rules of one host."""

    __slots__ = ("_allowed_by_default", "_parsed", "sitemaps")

    def __init__(self, parsed: Protego | None, *, allowed_by_default: bool) -> None:
        self._parsed = parsed
        self._allowed_by_default = allowed_by_default
        self.sitemaps: tuple[str, ...] = tuple(parsed.sitemaps) if parsed is not None else ()
        """Sitemap URLs as written in the file."""

    @classmethod
    def parse(cls, text: str) -> RobotsRules:
        """Parses a robots.txt; skips invalid lines."""
        from protego import Protego

        if len(text) > MAX_ROBOTS_BYTES:
            text = text[: text.rfind("\n", 0, MAX_ROBOTS_BYTES) + 1]
        return cls(Protego.parse(text.removeprefix("\ufeff")), allowed_by_default=True)

    def allowed(self, url: str, user_agent: str) -> bool:
        """Whether the URL may be fetched. `user_agent` is the whole header; groups match any part of it."""
        if self._parsed is None:
            return self._allowed_by_default
        return bool(self._parsed.can_fetch(url, user_agent))

    def crawl_delay(self, user_agent: str) -> float | None:
        """Seconds between two requests; None if the file sets no delay."""
        if self._parsed is None:
            return None
        delay = self._parsed.crawl_delay(user_agent)
        return None if delay is None else float(delay)


def robots_rules_for(status: int, text: str) -> RobotsRules:
    """The rules after fetching robots.txt: 2xx as written, 5xx disallow all, any other status allow all."""
    if 200 <= status < 300:
        return RobotsRules.parse(text)
    return RobotsRules(None, allowed_by_default=status < 500)
