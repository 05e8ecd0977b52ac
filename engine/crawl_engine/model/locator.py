"""Pages of a locator: numbered series, seeds, rules for sitemaps, and when a page is asked for again."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec import Struct, field

from crawl_engine.model.declaration import DefKey, Duration, PatternText, Priority, Separator, Text
from crawl_engine.model.stored_form import NO_POSITION, OMIT_DEFAULT, SourcePosition

MAX_SERIES_PAGES = 100_000


class Series(Struct, frozen=True, kw_only=True):
    """A URL or a body around an open number. A number stands between each two pieces of literal text."""

    url: tuple[str, ...]
    """Pieces of the normalized URL."""
    body: tuple[str, ...] = ()
    """Pieces of the body; empty: no body."""
    first: int
    last: int | None = None
    """None: the range is open."""
    width: int = 0
    """Digits to which numbers are padded."""
    step: int = 1
    """The distance of two numbers, up or down."""

    def request(self, number: int) -> tuple[str, str | None]:
        """URL and body of a page."""
        text = str(number).zfill(self.width)
        return text.join(self.url), text.join(self.body) if self.body else None

    def following(self, number: int) -> int | None:
        """The number of the next page; None: the range ends."""
        falls = self.last is not None and self.last < self.first
        following = number - self.step if falls else number + self.step
        is_beyond = self.last is not None and (following < self.last if falls else following > self.last)
        return None if is_beyond or abs(following - self.first) >= MAX_SERIES_PAGES * self.step else following


class SitemapLink(Struct, frozen=True, kw_only=True):
    """Which entries of a sitemap lead into which group; the first rule that takes an entry counts."""

    allow: Annotated[
        tuple[PatternText, ...],
        DefKey("Take only URLs that match one of these regular expressions.", examples=(["/p/"],)),
    ] = ()
    deny: Annotated[
        tuple[PatternText, ...],
        DefKey("Take no URLs that match one of these regular expressions.", examples=(["/old/"],)),
    ] = ()
    group: Annotated[
        Text | None,
        DefKey(
            "The task group of these pages; default: the locator's own group.",
            name="linkGroup",
            examples=("detail",),
        ),
    ] = None
    priority: Annotated[
        Priority | None, DefKey("The priority of these pages; default: that of their group.", examples=(0, 10))
    ] = None


class SitemapRules(Struct, frozen=True, kw_only=True):
    """Which entries of a sitemap are followed, and where to."""

    allow: Annotated[
        tuple[PatternText, ...],
        DefKey("Follow only entries whose URL matches one of these regular expressions.", examples=(["/p/"],)),
    ] = ()
    deny: Annotated[
        tuple[PatternText, ...],
        DefKey("Never follow entries whose URL matches one of these regular expressions.", examples=(["/old/"],)),
    ] = ()
    links: Annotated[
        tuple[SitemapLink, ...],
        DefKey(
            "Which entries lead into which group; what no rule takes is not followed.",
            examples=([{"allow": ["/p/"], "linkGroup": "detail"}],),
        ),
    ] = ()
    """Empty: all entries that `allow` and `deny` leave lead into the locator's own group."""
    since: Annotated[
        Literal["lastRun"] | None,
        DefKey("Ask only for pages whose `lastmod` is later than their stored document."),
    ] = None

    @property
    def takes_all(self) -> bool:
        """Whether all entries lead into the locator's own group."""
        return not (self.allow or self.deny or self.links)


class Recrawl(Struct, frozen=True, kw_only=True):
    """How often a page is asked for again: as often as it changes, within bounds."""

    min: Annotated[Duration, DefKey("A page is not asked for again sooner; default PT1H.")] = 3_600.0
    max: Annotated[Duration, DefKey("A page is asked for again at the latest after this time; default P30D.")] = (
        30 * 86_400.0
    )
    adapt: Annotated[
        bool,
        DefKey("Whether the time between doubles when a page has not changed and halves when it has; default true."),
    ] = True

    def clamp(self, seconds: float | None) -> float:
        """The stored interval of a document within these bounds; None: the document has no interval."""
        return self.min if seconds is None or not self.adapt else min(max(seconds, self.min), self.max)

    def following(self, seconds: float | None, *, changed: bool) -> float:
        """The next interval, after a fetch that found the page changed or unchanged."""
        return self.clamp(self.clamp(seconds) * (0.5 if changed else 2.0))


class SeedColumns(Struct, frozen=True, kw_only=True):
    """How the seeds of a CSV file are read."""

    url: Annotated[
        Text, DefKey("The column with the URL, for a locator without `url`; default url.", examples=("link",))
    ] = "url"
    delimiter: Annotated[Separator, DefKey("The character between two columns; default a comma.", examples=(";",))] = (
        ","
    )
    columns: Annotated[
        tuple[Text, ...],
        DefKey("The columns that pages know as `%{seed.NAME}`; default: all.", examples=(["sku", "shop"],)),
    ] = ()


class Locator(Struct, frozen=True, kw_only=True):
    """Where to start. URLs are as written: seeding expands braces and resolves relative URLs."""

    name: str
    urls: tuple[str, ...] = ()
    from_file: str | None = None
    """Path of a file with one URL per line; `-` is stdin. Already resolved against the defs file that names it."""
    seed_columns: SeedColumns | None = None
    """None: the file has no columns."""
    sitemap: str | None = None
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cookies: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    body: str | None = None
    content_type: str | None = None
    """Set if the body was written as `form` or `json`."""
    body_pieces: tuple[str, ...] = ()
    """A body with ranges or lists: its literals, and at odd positions the braces as written. Otherwise empty."""
    sitemap_rules: SitemapRules | None = None
    """None: all entries of the sitemap are followed."""
    until_empty: bool = False
    """Whether its pages are fetched one after another, until one has no record."""
    cookie_scope: Annotated[Literal["group"] | None, OMIT_DEFAULT] = None
    """Which pages get its cookies besides its own: those of its group and origin that links lead to."""
    place: SourcePosition = NO_POSITION


class LocatorGroup(Struct, frozen=True, kw_only=True):
    """Start URLs that share the tasks of the task group of the same name."""

    name: str
    locators: Annotated[tuple[Locator, ...], DefKey("Where to start.")]
    place: SourcePosition = NO_POSITION
