"""Pages of a locator: series of numbered pages, rules for sitemaps, and when a page is asked for again."""

from typing import Literal

from msgspec import Struct

from engine.model.stored_form import from_plain, to_plain

MAX_SERIES_PAGES = 100_000


class Series(Struct, frozen=True, kw_only=True):
    """A URL or a body around an open number. Pieces are literal text: a number stands between each two of them."""

    url: tuple[str, ...]
    """Of the normalized URL."""
    body: tuple[str, ...] = ()
    """Empty: there is no body."""
    first: int
    last: int | None = None
    """None: the range is open."""
    width: int = 0
    """Digits to which numbers are padded."""

    def request(self, number: int) -> tuple[str, str | None]:
        """URL and body of a page."""
        text = str(number).zfill(self.width)
        return text.join(self.url), text.join(self.body) if self.body else None

    def following(self, number: int) -> int | None:
        """The number of the next page; None: the range ends."""
        step = -1 if self.last is not None and self.last < self.first else 1
        if number == self.last or abs(number + step - self.first) >= MAX_SERIES_PAGES:
            return None
        return number + step

    def to_plain(self) -> object:
        """JSON values."""
        return to_plain(self)

    @classmethod
    def from_plain(cls, value: object) -> "Series":
        """The series of JSON values."""
        series: Series = from_plain(cls, value)
        return series


class SitemapLink(Struct, frozen=True, kw_only=True):
    """Which entries of a sitemap lead into which group."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    group: str | None = None
    """None: the locator's own group."""
    priority: int | None = None
    """None: that of the group."""


class SitemapRules(Struct, frozen=True, kw_only=True):
    """Which entries of a sitemap are followed, and where to: by the first of `links` that takes them."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    links: tuple[SitemapLink, ...] = ()
    """Empty: all that `allow` and `deny` leave lead into the locator's own group."""
    since: Literal["lastRun"] | None = None
    """`lastRun`: a page is asked for if it was modified after its stored document was; None: as its group says."""

    @property
    def takes_all(self) -> bool:
        """Whether all entries lead into the locator's own group."""
        return not (self.allow or self.deny or self.links)


class Recrawl(Struct, frozen=True, kw_only=True):
    """How many seconds a stored document replaces a fetch: as often as the page changes, within bounds."""

    min: float = 3_600.0
    max: float = 30 * 86_400.0
    adapt: bool = True
    """Whether the time follows the page; else it is always `min`."""

    def clamp(self, seconds: float | None) -> float:
        """The time for a document with that one, which may be of other defs; None: the document has none."""
        return self.min if seconds is None or not self.adapt else min(max(seconds, self.min), self.max)

    def following(self, seconds: float | None, *, changed: bool) -> float:
        """The next time, after a fetch that found the page changed or not."""
        return self.clamp(self.clamp(seconds) * (0.5 if changed else 2.0))
