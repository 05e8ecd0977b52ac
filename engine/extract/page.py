"""A fetched page, parsed on first use, once for all dataDefs."""

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, SelectolaxError

from engine import urls
from engine.errors import CrawlError
from engine.extract.markup import BASE, Markup
from engine.extract.nesting_guard import MAX_OPEN_TAGS, nests_too_deep, reopens_too_many
from engine.extract.page_robots import PageRobots, read_headers, read_meta
from engine.extract.tree_shape import TreeShape

if TYPE_CHECKING:
    from lxml.etree import _Element

MAX_BASE_CHARACTERS = 8_192
"""Of the URL in `<base href>`: every relative URL of the page repeats it."""

_HUGE_PAGE_TAGS = 300_000
"""Elements above which memory is short: a tree takes 450 bytes for each, a list of nodes 80."""

PageKind = Literal["html", "xml", "json"]


class PageTooDeep(CrawlError):
    """A document that cannot be parsed in reasonable time and memory: too deep, or too many reopened tags."""

    def __init__(self, url: str, problem: str = f"nests more than {MAX_OPEN_TAGS:,} open tags") -> None:
        super().__init__(
            f"{url} {problem}",
            "Such pages are made to choke parsers; exclude the URL with `deny` in the link that leads to it.",
        )


class Missing:
    """Marks an absent JSON value; None is a JSON null."""


MISSING = Missing()


class JsonNumber(float):
    """A JSON number that keeps its digits."""

    __slots__ = ("digits",)
    digits: str

    @classmethod
    def from_digits(cls, digits: str) -> "JsonNumber":
        """The number, with the digits as written."""
        number = cls(digits)
        number.digits = digits
        return number


# JMESPath checks values by the name of their type.
JsonNumber.__name__ = "float"


class Page:
    """A fetched page. `url` is the final one. Not thread-safe; the first access to its tree may raise `PageTooDeep`."""

    def __init__(
        self,
        *,
        url: str,
        text: str | bytes,
        kind: PageKind,
        status: int,
        fetched_at: float,
        robots_tags: tuple[str, ...] = (),
        only_tree: bool = False,
    ) -> None:
        """`text`: bytes are UTF-8. `robots_tags`: the values of its X-Robots-Tag headers.

        `only_tree`: no XPath is asked of it, so that the text of a huge page need not stay beside its tree.
        """
        self._only_tree = only_tree
        self.url = url
        self._utf8 = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
        self.kind: PageKind = kind
        self.status = status
        self.fetched_at = fetched_at
        """Unix time."""
        self._robots_tags = robots_tags
        self._robots: dict[str, PageRobots] = {}

    @property
    def text(self) -> str:
        """The document as written; a new copy each time."""
        return self._utf8.decode()

    @cached_property
    def tree(self) -> LexborHTMLParser | None:
        """The document as HTML; None for JSON and XML. Raises MemoryError."""
        if self.kind != "html":
            return None
        self._check_depth()
        try:
            tree = LexborHTMLParser(self._utf8, options=LexborDocumentOptions.WO_EVENTS)
        except SelectolaxError as error:  # Lexbor reads any bytes: it can only run out of memory
            raise MemoryError(str(error)) from error
        if self._only_tree and self.is_huge and self.markup.forget():
            self._utf8 = tree.raw_html = b""
        return tree

    @cached_property
    def is_huge(self) -> bool:
        """Whether its tree is so large that little memory is left beside it."""
        return self.markup.tags > _HUGE_PAGE_TAGS and self.markup.start_tags > _HUGE_PAGE_TAGS

    @cached_property
    def shape(self) -> TreeShape | None:
        """The shape of `tree`."""
        return None if self.tree is None else TreeShape(self.tree)

    @cached_property
    def element(self) -> "_Element | None":
        """The root element for XPath, and for CSS on XML; None for JSON and empty documents. Raises MemoryError."""
        if self.kind == "json":
            return None
        self._check_depth()
        from engine.extract.xpath import parse_markup

        return parse_markup(self._utf8, xml=self.kind == "xml")

    @cached_property
    def data(self) -> Any:
        """The JSON value, with fractions as `JsonNumber`; `MISSING` for other kinds and for invalid JSON."""
        if self.kind != "json":
            return MISSING
        text = self._utf8.decode()
        try:
            value = json.loads(
                text.removeprefix("\ufeff"), parse_float=JsonNumber.from_digits, parse_constant=lambda _: None
            )
            has_invalid = "\\ud" in text or "\\uD" in text or "\\u0000" in text
            return _replace_invalid_characters(value) if has_invalid else value
        except (ValueError, RecursionError):
            return MISSING

    @cached_property
    def base(self) -> str:
        """The base of relative URLs: the first `<base href>` unless it is overlong, else the final URL."""
        own = urls.normalize(self.url) or self.url
        if self.kind != "html" or not self.markup.mentions(BASE) or self.tree is None:
            return own
        node = self.tree.css_first("base[href]")
        href = node.attrs.get("href") if node is not None else None
        return (urls.join(own, href) if href and len(href) <= MAX_BASE_CHARACTERS else None) or own

    @cached_property
    def selections(self) -> dict[object, Any]:
        """What selectors with `scope: page` select on it, by selector: it is the same in every block."""
        return {}

    @cached_property
    def host(self) -> str:
        """The host name of the final URL; empty if the URL has none."""
        return host_name(self.url)

    @cached_property
    def mentions_nofollow(self) -> bool:
        """Whether the word occurs anywhere in the page; if not, no `rel` needs to be read."""
        return self.markup.mentions(b"nofollow")

    def robots(self, agent: str) -> PageRobots:
        """What the page asks of a robot of that product token, in its headers and in its `<meta>` elements."""
        cached = self._robots.get(agent)
        if cached is None:
            cached = self._read_meta_robots(agent)
            if self._robots_tags:
                tags = read_headers(self._robots_tags, agent)
                cached = PageRobots(cached.nofollow or tags.nofollow, cached.noindex or tags.noindex)
            self._robots[agent] = cached
        return cached

    def _read_meta_robots(self, agent: str) -> PageRobots:
        if self.kind != "html" or not self.markup.mentions_robots(agent.encode()):
            return PageRobots()
        if self.tree is None:
            return PageRobots()
        return read_meta(
            node.attrs.get("content") or ""
            for node in self.tree.css("meta[name]")
            if (node.attrs.get("name") or "").strip().lower() in ("robots", agent)
        )

    @cached_property
    def markup(self) -> Markup:
        """The document for the guards."""
        return Markup(self._utf8)

    def _check_depth(self) -> None:
        if nests_too_deep(self.markup):
            raise PageTooDeep(self.url)
        if reopens_too_many(self.markup):
            raise PageTooDeep(
                self.url, "leaves so many formatting tags open that the parser would repeat them a million times"
            )


def host_name(url: str) -> str:
    """The host name of a URL; empty for a relative one."""
    try:
        return urls.host_of(url)
    except ValueError:
        return ""


def _replace_invalid_characters(value: Any) -> Any:
    # `\ud800` and `\u0000` are valid JSON, but cannot be stored.
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
    if isinstance(value, list):
        return [_replace_invalid_characters(item) for item in value]
    if isinstance(value, dict):
        return {_replace_invalid_characters(key): _replace_invalid_characters(item) for key, item in value.items()}
    return value
