"""A fetched page, parsed on first use, once for all dataDefs."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal
from weakref import ref

from msgspec import Struct
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, SelectolaxError

from crawl_engine import urls
from crawl_engine.errors import CrawlError
from crawl_engine.extract.documents.json_ld import read_json_ld
from crawl_engine.extract.documents.json_value import MISSING, parse_json, read_json_lines
from crawl_engine.extract.documents.markup import BASE, NOFOLLOW, Markup
from crawl_engine.extract.documents.page_states import PageStates
from crawl_engine.extract.documents.templates import SHADOW, open_shadow_roots
from crawl_engine.model.record import PageWarning
from crawl_engine.urls import QueryStripper

if TYPE_CHECKING:
    from lxml.etree import _Element

    from crawl_engine.extract.documents.csv_table import CsvTable
    from crawl_engine.extract.documents.xpath import PlacedElements

_SEPARATORS = re.compile("[,;]")
_DIRECTIVES_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


def read_meta(contents: Iterable[str]) -> frozenset[str]:
    """The directives of the `content` attributes that address a robot, such as `noindex`."""
    words: set[str] = set()
    for content in contents:
        words.update(_SEPARATORS.sub(" ", content.lower()).split())
    return _without_none(words)


def read_headers(values: Iterable[str], agent: str) -> frozenset[str]:
    """The directives of X-Robots-Tag headers for a product token; those before any `name:` address every robot.

    A name applies to the rest of its header: `otherbot: noindex, nofollow`.
    """
    words: set[str] = set()
    for value in values:
        addressed = True
        for part in _SEPARATORS.split(value.lower()):
            written, colon, directive = part.partition(":")
            name = written.strip().partition("/")[0]  # without a version
            if colon and name[:1].isdigit():
                continue  # the second part of a date, after a weekday
            if colon and name not in _DIRECTIVES_WITH_VALUE:
                addressed = name in (agent, "robots", "*")
            elif colon:
                continue
            if addressed:
                words.update((directive if colon else part).split())
    return _without_none(words)


def _without_none(words: set[str]) -> frozenset[str]:
    """Directives, with what `none` stands for."""
    return frozenset(words | {"nofollow", "noindex"} if "none" in words else words)


ROBOTS_TAG = "x-robots-tag"


def header_values(headers: Iterable[tuple[str, str]], name: str) -> list[str]:
    """The values of all headers of a name, in lower case as the names among them."""
    return [value for written, value in headers if written == name]


MAX_URL_CHARACTERS = 16_384
"""For one link; servers do not take longer ones."""
MAX_BASE_CHARACTERS = 8_192
"""For the URL in `<base href>`: every relative URL of the page repeats it."""

_HUGE_PAGE_TAGS = 300_000
"""With more elements, memory is short beside the tree."""

PageKind = Literal["html", "xml", "json", "ndjson", "csv"]


class PageTooCostly(CrawlError):
    """A document exceeds a limit of a parser, or has too many values. Its rows would be incomplete."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(
            f"{url} {problem}",
            "Its rows would be incomplete; exclude the URL with `deny` in the link that leads to it.",
        )


class ArchivedFiles(Struct, frozen=True):
    """The files in an archive, which are read by their names."""

    find: Callable[[str], Sequence[tuple[str, Callable[[], str]]]]
    """The files that a pattern with `*` and `?` names: the name of each, and what reads its text, which raises
    DocumentUnreadable."""
    count: int
    shown: str
    """How many they are, with some names."""


class Page:
    """A fetched page. `url` is the final one. Not thread-safe."""

    def __init__(
        self,
        *,
        url: str,
        text: str | bytes,
        kind: PageKind,
        status: int,
        fetched_at: float,
        headers: tuple[tuple[str, str], ...] = (),
        only_tree: bool = False,
        encoding: str = "",
    ) -> None:
        """`text`: bytes are UTF-8. `headers`: of its answer, names in lower case.

        `only_tree`: no XPath will be asked, so the text of a huge page is dropped once it is parsed.
        """
        self._only_tree = only_tree
        self.url = url
        self._utf8 = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
        self.kind: PageKind = kind
        self.status = status
        self.fetched_at = fetched_at
        """Unix time."""
        self.headers = headers
        self._robots: dict[str, frozenset[str]] = {}
        self.encoding = encoding
        """Python's name of the codec in which the page was sent; empty: UTF-8, or as a `<meta>` says."""
        self.parsed: dict[object, Any] = {}
        """Documents inside the page, and results of selectors on all of it, by what selects them."""
        self.outer: ref[Page] | None = None
        """Of a document inside a page: that page."""
        self.archive: ArchivedFiles | None = None
        """The files that it is made of, if it is an archive or compressed."""
        self.states: PageStates | None = None
        """The states that it went through in a browser that collects them."""
        self.damaged = 0
        """Bytes that are invalid in its encoding, and were replaced."""
        self.said_encoding = ""
        """The encoding that its label says, where it is UTF-8 with damaged bytes."""
        self.faults: dict[str, None] = {}
        """Skipped parts that cannot be read; each text once."""
        self.disguise = ""
        """What hides the kind of the document, such as another content type."""
        self.warnings: dict[tuple[str, str, str], PageWarning] = {}
        """Doubts about values, by dataDef, field and code."""
        self.signs: dict[tuple[str, str, str], PageWarning] = {}
        """What parts of the dataDefs gave, for the end of the run; by dataDef, part and code."""
        self.selections: dict[object, Any] = {}
        """Results of selectors with `scope: page`, the same in every block."""

    def warn(self, data_def: str, field: str, code: str, text: str) -> None:
        """Note a doubt about a value; further ones of the same field and code are not kept."""
        self.warnings.setdefault((data_def, field, code), PageWarning(data_def, field, code, text))

    @property
    def root(self) -> "Page":
        """The page that was fetched."""
        return (None if self.outer is None else self.outer()) or self

    @property
    def utf8(self) -> bytes:
        """The document in UTF-8; empty once the text of a huge page was dropped."""
        return self._utf8

    @property
    def text(self) -> str:
        """The document as written; a new copy each time."""
        return self._utf8.decode()

    @cached_property
    def tree(self) -> LexborHTMLParser | None:
        """The document as HTML; None for other kinds. Raises MemoryError."""
        if self.kind != "html":
            return None
        try:
            markup = open_shadow_roots(self._utf8) if self.markup.mentions(SHADOW) else self._utf8
            tree = LexborHTMLParser(markup, options=LexborDocumentOptions.WO_EVENTS)
        except SelectolaxError as error:  # Lexbor reads any bytes: it can only run out of memory
            raise MemoryError(str(error)) from error
        if self._only_tree and self.is_huge and self.markup.forget():
            self._utf8 = tree.raw_html = b""
        return tree

    @cached_property
    def is_huge(self) -> bool:
        tags = self.markup.tags if len(self._utf8) > _HUGE_PAGE_TAGS else 0
        return tags > _HUGE_PAGE_TAGS and self.markup.start_tags > _HUGE_PAGE_TAGS

    def is_deeper(self, levels: int) -> bool:
        """Whether an element of the HTML has more than so many ancestors."""
        # the first child of a parent is as deep as its siblings; `>` needs no backtracking
        chain = ">".join(["*"] * (levels + 1) + [":first-child"])
        return self.tree is not None and self.tree.css_first(chain) is not None

    @cached_property
    def element(self) -> "_Element | None":
        """The root element for XPath, and for CSS on XML; None for JSON, CSV and empty documents.

        Raises MemoryError and PageTooCostly.
        """
        if self.kind not in ("html", "xml"):
            return None
        from crawl_engine.extract.documents.xpath import parse_markup

        return parse_markup(
            self._utf8, xml=self.kind == "xml", on_limit=self._on_parser_limit, on_malformed=self._on_malformed
        )

    @cached_property
    def placed(self) -> "PlacedElements | None":
        """The elements of `tree` in a tree for XPath; None unless it is HTML. Raises MemoryError."""
        if self.tree is None:
            return None
        from crawl_engine.extract.documents.xpath import PlacedElements

        return PlacedElements(self.tree, self._on_parser_limit)

    @cached_property
    def data(self) -> Any:
        """The JSON value, with fractions as `JsonNumber`; `MISSING` for HTML, XML and invalid JSON.

        NDJSON gives a list of its values, CSV a list of objects of texts.
        """
        if self.kind == "json":
            value = parse_json(self._utf8.decode())
            if value is MISSING:
                self.faults["the document is not JSON, or beyond the limits of its parser"] = None
            return value
        if self.kind == "ndjson":
            values, broken = read_json_lines(self._utf8.decode())
            if broken:
                self.faults["a line is not JSON and was skipped"] = None
            return values
        return self.read_csv().rows if self.kind == "csv" else MISSING

    def read_csv(self, line: int | None = None, wanted: frozenset[str] = frozenset()) -> "CsvTable":
        """The table of a CSV document, which is its `data` from now on. See `csv_table.read_csv`."""
        from crawl_engine.extract.documents.csv_table import read_csv  # few crawls need it

        key = ("csv", line, wanted)
        table: CsvTable | None = self.parsed.get(key)
        if table is None:
            table = self.parsed[key] = read_csv(self._utf8.decode(), line, wanted)
        if table.faulty:
            self.faults["a row of the CSV does not fit its header"] = None
        self.data = table.rows
        return table

    @cached_property
    def json_ld(self) -> "Mapping[str, Sequence[dict[str, Any]]]":
        """The JSON-LD objects of the page by type; empty unless it is HTML. Raises MemoryError."""
        if self.tree is None:
            return {}
        by_type, faults = read_json_ld(self.tree)
        self.faults.update(dict.fromkeys(faults))
        return by_type

    @cached_property
    def base(self) -> str:
        """The base of relative URLs: the first `<base href>` unless it is overlong, else the final URL."""
        own = urls.normalize(self.url) or self.url
        if self.kind != "html" or not self.markup.mentions(BASE) or self.tree is None:
            return own
        href = next((node.attrs["href"] for node in self.tree.tags("base") if "href" in node.attrs), None)
        return (urls.join(own, href) if href and len(href) <= MAX_BASE_CHARACTERS else None) or own

    @cached_property
    def host(self) -> str:
        """The host name of the final URL, or an empty text."""
        return host_name(self.url)

    @cached_property
    def mentions_nofollow(self) -> bool:
        """Whether the word occurs anywhere in the page; if not, no `rel` needs to be read."""
        return self.markup.mentions(NOFOLLOW)

    def robots(self, agent: str) -> frozenset[str]:
        """The directives for a robot of that product token, in headers and `<meta>` elements, such as `noindex`."""
        cached = self._robots.get(agent)
        if cached is None:
            cached = self._read_meta_robots(agent)
            if written := header_values(self.headers, ROBOTS_TAG):
                cached |= read_headers(written, agent)
            self._robots[agent] = cached
        return cached

    def _read_meta_robots(self, agent: str) -> frozenset[str]:
        if self.kind != "html" or not self.markup.mentions_robots(agent.encode()) or self.tree is None:
            return frozenset()
        return read_meta(
            node.attrs.get("content") or ""
            for node in self.tree.css("meta[name]")
            if (node.attrs.get("name") or "").strip().lower() in ("robots", agent)
        )

    @cached_property
    def markup(self) -> Markup:
        return Markup(self._utf8)

    def _on_parser_limit(self, limit: str) -> None:
        """Handle a parser that stops early. CSS still reads all of an HTML page; XML rows would be incomplete."""
        if self.kind == "xml":
            raise PageTooCostly(self.url, f"is beyond a limit of the XML parser: {limit}")
        self.faults[f"XPath reads a part of the page alone: {limit}"] = None

    def _on_malformed(self) -> None:
        self.faults["the XML is malformed: what its parser cannot read is missing"] = None


def host_name(url: str) -> str:
    """The host name of a URL; empty for a relative one."""
    try:
        return urls.host_of(url)
    except ValueError:
        return ""


def resolve_url(base: str, href: str, query_stripper: QueryStripper | None, group: str = "") -> str | None:
    """The URL of an href, without credentials and dropped query keys; None: not an http URL, or too long.

    `group`: of the page at that URL, which may keep its route.
    """
    keeps_route = query_stripper is not None and group in query_stripper.routed
    url = urls.join(base, href, keeps_route=keeps_route)
    if url is None or len(url) > MAX_URL_CHARACTERS:
        return None
    if "@" in url:
        url = urls.without_credentials(url)  # a page's credentials are neither stored nor sent
    return url if query_stripper is None else query_stripper.strip_url(url)
