"""A fetched page as the selectors see it: parsed at first use, once for all dataDefs. Knows no fields and no links."""

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from engine import urls
from engine.errors import CrawlError
from engine.extract.nesting_guard import MAX_OPEN_TAGS, nests_too_deep, reopens_too_many

if TYPE_CHECKING:
    from lxml.etree import _Element

PageKind = Literal["html", "xml", "json"]


class PageTooDeep(CrawlError):
    """A document nests more tags, or makes the parser repeat more, than can be parsed in reasonable time and memory."""

    def __init__(self, url: str, how: str = f"nests more than {MAX_OPEN_TAGS:,} open tags") -> None:
        super().__init__(
            f"{url} {how}",
            "Pages like this are made to choke parsers; deny the URL in the link that leads to it.",
        )


class Missing:
    """The mark of an absent JSON value, which None is not."""


MISSING = Missing()


class JsonNumber(float):
    """A JSON number that remembers its digits."""

    __slots__ = ("digits",)
    digits: str

    @classmethod
    def from_digits(cls, digits: str) -> "JsonNumber":
        """The number those digits write."""
        number = cls(digits)
        number.digits = digits
        return number


# JMESPath judges values by the name of their type.
JsonNumber.__name__ = "float"


class Page:
    """One page. Not for use by two threads at once; `PageTooDeep` may be raised by the first look at its tree."""

    def __init__(self, *, url: str, text: str, kind: PageKind, status: int, fetched_at: float) -> None:
        self.url = url
        self.text = text
        self.kind: PageKind = kind
        self.status = status
        self.fetched_at = fetched_at

    @classmethod
    def of(cls, *, url: str, text: str, kind: PageKind, status: int, fetched_at: float) -> "Page":
        """The page fetched from the final `url`; `fetched_at` in seconds since 1970."""
        return cls(url=url, text=text, kind=kind, status=status, fetched_at=fetched_at)

    @cached_property
    def tree(self) -> LexborHTMLParser | None:
        """The document by the rules of HTML; None for JSON."""
        if self.kind == "json":
            return None
        self._check_depth()
        return LexborHTMLParser(self._bytes, options=LexborDocumentOptions.WO_EVENTS)

    @cached_property
    def element(self) -> "_Element | None":
        """The root element for XPath: of HTML, or of XML where the page is that; None for JSON and empty texts."""
        if self.kind == "json":
            return None
        self._check_depth()
        from engine.extract.xpath import parse_markup

        return parse_markup(self._bytes, xml=self.kind == "xml")

    @cached_property
    def data(self) -> Any:
        """The JSON value, its fractions as `Number`; `NOTHING` for other kinds and for broken JSON."""
        if self.kind != "json":
            return MISSING
        text = self._bytes.decode()
        try:
            value = json.loads(
                text.removeprefix("\ufeff"), parse_float=JsonNumber.from_digits, parse_constant=lambda _: None
            )
        except (ValueError, RecursionError):
            return MISSING
        return _replace_invalid_characters(value) if "\\ud" in text or "\\uD" in text or "\\u0000" in text else value

    @cached_property
    def base(self) -> str:
        """What relative URLs resolve against: the first `<base href>`, else the final URL."""
        own = urls.normalize(self.url) or self.url
        if self.kind == "json" or b"<base" not in self._lower or self.tree is None:
            return own
        node = self.tree.css_first("base[href]")
        href = node.attrs.get("href") if node is not None else None
        return (urls.join(own, href) if href else None) or own

    @cached_property
    def host(self) -> str:
        """The host name of the final URL; empty for one that is no web page's."""
        return host_name(self.url)

    @cached_property
    def mentions_nofollow(self) -> bool:
        """Whether the word occurs in the page at all: most pages never write it, and need no look at `rel`."""
        return b"nofollow" in self._lower

    @cached_property
    def nofollow(self) -> bool:
        """Whether `<meta name=robots>` asks that no link of the page be followed."""
        if self.kind == "json" or b"robots" not in self._lower or self.tree is None:
            return False
        words: set[str] = set()
        for node in self.tree.css('meta[name="robots" i]'):
            words.update((node.attrs.get("content") or "").lower().replace(",", " ").split())
        return "nofollow" in words or "none" in words

    @cached_property
    def _bytes(self) -> bytes:
        # Lone surrogates, which a lenient decoder may leave, have no UTF-8 form.
        return self.text.encode("utf-8", "replace")

    @cached_property
    def _lower(self) -> bytes:
        return self._bytes.lower()

    def _check_depth(self) -> None:
        if nests_too_deep(self._lower):
            raise PageTooDeep(self.url)
        if reopens_too_many(self._lower):
            raise PageTooDeep(
                self.url, "leaves so many formatting tags open that they would be repeated a million times"
            )


def host_name(url: str) -> str:
    """The host name of a URL; empty when it is no absolute one."""
    try:
        return urls.host_of(url)
    except ValueError:
        return ""


def _replace_invalid_characters(value: Any) -> Any:
    # `\ud800` and `\u0000` are good JSON, but no database or file takes them.
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
    if isinstance(value, list):
        return [_replace_invalid_characters(item) for item in value]
    if isinstance(value, dict):
        return {_replace_invalid_characters(key): _replace_invalid_characters(item) for key, item in value.items()}
    return value
