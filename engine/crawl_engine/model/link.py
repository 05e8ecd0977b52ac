"""The links of a page: where they stand, which to follow, what each sends and carries along."""

from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple, get_args

import orjson
from msgspec import Meta, Struct
from msgspec.structs import replace

from crawl_engine.late_regex import late_regex
from crawl_engine.model.declaration import (
    DefKey,
    NonNegativeInteger,
    PatternText,
    Priority,
    Replacement,
    SelectorText,
    Shape,
    SourceText,
    Text,
)
from crawl_engine.model.stored_form import NO_POSITION, OMIT_DEFAULT, SourcePosition
from crawl_engine.model.variables import SEED

FORM_TYPE = "application/x-www-form-urlencoded"
JSON_TYPE = "application/json"
NO_BUTTON = "none"
"""In place of the button of a form: it is sent as a script sends it."""


Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


BODY_PATH = "$[1]"
"""Where the stored form of a request holds its body."""
RELATION_PATH = "$[3]"
COOKIES_PATH = "$[6]"
MAX_HEADER_CHARACTERS = 8_000
"""Of one header that a link sends."""
MAX_CARRIED_BYTES = 4_096
"""Bytes of the values that a job carries, as JSON."""
_MAX_DIGEST = 64
_MAX_CARRIED = MAX_CARRIED_BYTES + 2 * _MAX_DIGEST
Relation = Literal["link", "next", "canonical"]
"""How a page leads to another: a link to follow, its next page, or its canonical URL."""


class RequestTemplate(Struct, frozen=True, kw_only=True):
    """A request whose texts hold `%{…}` variables, filled with values of a page."""

    url: str | None = None
    """None: the URL of the element, or of the page."""
    method: Method | None = None
    """None: the method of the form; else GET, or POST with a body."""
    form: tuple[tuple[str, ...], ...] = ()
    """Pairs of name and value; a name may occur several times."""
    has_form: bool = False
    json: str | None = None
    """JSON text; variables are inside its strings."""
    numbers: Annotated[tuple[str, ...], OMIT_DEFAULT] = ()
    """Keys of `json` whose texts are sent as numbers."""
    headers: tuple[tuple[str, ...], ...] = ()
    """Pairs of name and value."""
    only_read: bool = False
    """Whether the body of the link is the form as read, not as sent: a login fills it in itself."""

    @property
    def has_body(self) -> bool:
        """Whether it has fields or JSON to send."""
        return self.has_form or self.json is not None


JSON_NUMBER = late_regex(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A number as JSON writes it: `01` is none."""
TextFormat = Literal["html", "json", "js", "xml", "csv", "nextjs", "nuxt", "astro"]


class PageData(NamedTuple):
    """What a framework leaves in its pages. `read_page_data` of `crawl_engine.extract.embedded.FORMAT` reads it."""

    name: str
    selector: str
    """Of the texts that have it, where the defs say none."""


PAGE_DATA: Mapping[TextFormat, PageData] = MappingProxyType(
    {
        "nextjs": PageData("Next.js", "script"),
        "nuxt": PageData("Nuxt", "script:not([type='application/ld+json'])"),
        "astro": PageData("Astro", "xpath: //astro-island/@props"),
    }
)
"""By format; all texts of a page are one document."""
JSON_FORMATS: frozenset[TextFormat] = frozenset({"json", "js", "csv", *PAGE_DATA})
"""Formats whose documents `jmespath:` reads, and no other selector."""


class TextSource(Struct, frozen=True, kw_only=True):
    """The texts of a page that are read as documents of their own."""

    selector: Annotated[
        SourceText | None,
        DefKey(
            "Selects the texts of the page to read: a selector, `comment(CSS)`, `header: NAME`, or `capture: NAME` of a"
            " browser; default: the body.",
            name="from",
            examples=(
                "script#state",
                "jmespath: html",
                "comment(#stats)",
                "header: X-Items",
                "capture: items",
                "xpath: //div/@data-page",
            ),
        ),
    ] = None
    match: Annotated[
        PatternText | None,
        DefKey(
            "A regular expression that cuts each text: group 1, else the match; of JSON and js where the value begins.",
            examples=(r"window\.__STATE__ = (.+)",),
        ),
    ] = None
    format: Annotated[
        TextFormat | None,
        DefKey(
            "What each text is: html, json, js (a literal in a script), xml, csv; or data of nextjs, nuxt, astro.",
            name="as",
        ),
    ] = None

    @property
    def shown(self) -> str:
        """How it is called in messages."""
        return "the body" if self.selector is None else f"`from: {self.selector}`"

    @property
    def is_json(self) -> bool:
        """Whether its documents are values of JSON."""
        return self.format in JSON_FORMATS


class Link(Struct, frozen=True, kw_only=True):
    """Which links of a page to follow, and what to send and carry along."""

    selector: Annotated[
        SelectorText,
        DefKey(
            "Selects elements of the page; with `inBlock`, of the block of each record.",
            examples=("li.next a", "a[href]"),
        ),
    ] = ""
    source: Annotated[TextSource | None, Shape.INLINE] = None
    """Where its documents are inside the page, in place of those of the dataDef."""
    in_block: Annotated[bool, DefKey("Whether the selector searches the block of each record; default false.")] = False
    carry: Annotated[
        tuple[Text, ...],
        Shape.ITEM_OR_LIST,
        DefKey(
            "Fields whose values go to the linked page, which reads them as `%{carried.NAME}`.", examples=(["sku"],)
        ),
    ] = ()
    request: Annotated[RequestTemplate | None, Shape.INLINE] = None
    """None: a GET of the URL of the element."""
    submit: Annotated[
        Text | None,
        DefKey(
            "The button that sends a form, by its name or id, or none, as scripts send it; default: the first one.",
            examples=("none", "search"),
        ),
    ] = None
    attribute: Annotated[
        Text, DefKey("The attribute that holds the URL; default href.", examples=("href", "src", "srcset"))
    ] = "href"
    largest: Annotated[bool, DefKey("Of `attribute: srcset`, follow the largest candidate; default: all.")] = False
    group: Annotated[
        Text | None,
        DefKey(
            "The task group of the linked pages; default: the page's own group.",
            name="linkGroup",
            examples=("detail",),
        ),
    ] = None
    replace: Annotated[
        tuple[Replacement, ...],
        DefKey(
            "Pairs of a regular expression and the text to write for its matches in the URL, before it is judged.",
            examples=([["^http:", "https:"]],),
        ),
    ] = ()
    allow: Annotated[
        tuple[PatternText, ...],
        DefKey("Follow only URLs that match one of these regular expressions.", examples=(["/catalogue/"],)),
    ] = ()
    deny: Annotated[
        tuple[PatternText, ...],
        DefKey("Never follow URLs that match one of these regular expressions.", examples=(["/login", "[?&]sort="],)),
    ] = ()
    same_host: Annotated[bool, DefKey("Stay on the page's host; default true.")] = True
    max_depth: Annotated[
        NonNegativeInteger | None, DefKey("Do not follow links to pages deeper than this.", examples=(3,))
    ] = None
    priority: Annotated[
        Priority | None, DefKey("The priority of the linked pages; default: the group's.", examples=(0, 10))
    ] = None
    place: SourcePosition = NO_POSITION

    @property
    def reads_records(self) -> bool:
        """Whether it needs the records of the page: their blocks or their values."""
        return self.in_block or bool(self.carry) or self.request is not None


class NextPage(Struct, frozen=True, kw_only=True):
    """How a page leads to the next one in the same group."""

    request: RequestTemplate
    variables: tuple[tuple[str, ...], ...]
    """Pairs of a variable's name and the selector of its value; or of a parameter of the URL and the number to add."""
    header: str = ""
    """The relation of a link in the header `Link` that names the URL, in place of a request."""
    until_empty: bool = False
    """Whether a page without a record or a followed link is the last."""
    place: SourcePosition = NO_POSITION

    @property
    def steps(self) -> dict[str, int]:
        """What is added to parameters of the URL, by their names."""
        return {name: int(text) for name, text in self.variables if text.isdecimal()}


METHODS, RELATIONS = get_args(Method), get_args(Relation)


class LinkRequest(Struct, frozen=True, kw_only=True):
    """The request of a link besides its URL; for a page of a series, its number."""

    method: str = "GET"
    body: str | None = None
    content_type: str | None = None
    relation: Relation = "link"
    page: int | None = None
    """Its number in the series of a locator; None: it is not part of a series."""
    headers: tuple[tuple[str, str], ...] = ()
    """Names and values, in which secrets are still variables."""
    cookies: tuple[tuple[str, str], ...] = ()
    """Those of the locator, if it sends them along; texts of the defs."""

    @property
    def is_plain_get(self) -> bool:
        """Whether a plain link sends the same."""
        return self.method == "GET" and self.body is None and not (self.headers or self.cookies)

    def to_json(self) -> str | None:
        """The stored form; None: a plain link."""
        if self == PLAIN_LINK:
            return None
        plain = (self.method, self.body, self.content_type, self.relation, self.page)
        if self.cookies:
            return orjson.dumps((*plain, self.headers, self.cookies)).decode()
        return orjson.dumps((*plain, self.headers) if self.headers else plain).decode()

    @classmethod
    def from_json(cls, text: str | None) -> "LinkRequest":
        """The request of a stored text; None: a plain link."""
        if text is None:
            return PLAIN_LINK
        method, body, content_type, relation, page, *more = orjson.loads(text)
        headers, cookies = (tuple([(name, value) for name, value in pairs]) for pairs in (*more, (), ())[:2])
        return cls(
            method=method, body=body, content_type=content_type, relation=relation, page=page, headers=headers,
            cookies=cookies,
        )  # fmt: skip


PLAIN_LINK = LinkRequest()


class Carried(Struct, frozen=True, kw_only=True):
    """The values that a page sends along with a link."""

    values: Mapping[str, str] = MappingProxyType({})
    """By name of their field."""
    blocks: str = ""
    """For a series that ends with an empty page: a digest of the blocks. The next page must not repeat it."""
    form_page: str = ""
    """For the link of a form: a digest of the page with the form. The answer should not repeat it."""

    def to_json(self) -> str:
        """The stored form."""
        digests = (self.blocks, self.form_page) if self.form_page else (self.blocks,)
        return orjson.dumps([dict(self.values), *digests]).decode()

    @property
    def of_seed(self) -> "Carried | None":
        """The values of the seed from which the page descends, which each of its links carries; None without any."""
        values = {name: text for name, text in self.values.items() if name.startswith(SEED)}
        return Carried(values=values) if values else None

    def add_to(self, text: str | None) -> str:
        """The stored form of these values, and of those of a stored text."""
        other = Carried.from_json(text)
        return replace(other, values={**self.values, **other.values}).to_json()

    @classmethod
    def from_json(cls, text: str | None) -> "Carried":
        """The values of a stored text."""
        if text is None:
            return NOTHING_CARRIED
        values, blocks, *form_page = orjson.loads(text)
        return cls(values=MappingProxyType(values), blocks=blocks, form_page="".join(form_page))


NOTHING_CARRIED = Carried()


class LinkDetails(NamedTuple):
    """The properties of a link besides its URL. Most links have none."""

    request: LinkRequest = PLAIN_LINK
    carried: str | None = None
    """As `Carried.to_json` writes it."""

    def to_line(self) -> str:
        """A line of JSON."""
        return orjson.dumps([self.request.to_json(), self.carried]).decode()

    @classmethod
    def from_line(cls, line: str) -> "LinkDetails":
        """The details of a line from a process that is not trusted. Raises ValueError or TypeError."""
        stored, carried = orjson.loads(line)
        request = LinkRequest.from_json(stored)
        named = request.method in METHODS and request.relation in RELATIONS
        if not named or request.page is not None or request.cookies:
            raise ValueError("not the request of a link")
        for text in (request.body, request.content_type, carried, *chain.from_iterable(request.headers)):
            if text is not None and type(text) is not str:
                raise TypeError("not a text")
        if not all(text.isprintable() for text in (request.content_type or "", *chain.from_iterable(request.headers))):
            raise ValueError("not a header")
        if any(len(name) + len(value) > MAX_HEADER_CHARACTERS for name, value in request.headers):
            raise ValueError("more than a header")
        if carried is not None:
            _check_carried(carried)
        return cls(request, carried)

    @property
    def concerns_known_job(self) -> bool:
        """Whether it tells something to the job of its page, which may be there already."""
        return self.carried is not None or self.request.relation == "canonical"

    @property
    def stays_at_depth(self) -> bool:
        """Whether its page is as far from the locator as the page that leads to it."""
        return self.request.relation != "link"


def _check_carried(text: str) -> None:
    values, *digests = orjson.loads(text)
    if type(values) is not dict or any(type(value) is not str for value in (*values.values(), *digests)):
        raise TypeError("not carried values")
    if len(digests) not in (1, 2) or max(map(len, digests)) > _MAX_DIGEST or len(text.encode()) > _MAX_CARRIED:
        raise ValueError("more than a link carries")


class PageBlocks(NamedTuple):
    """Tells whether a page is the last of a series."""

    present: bool
    """Whether a block matched, or a link is followed."""
    digest: Annotated[str, Meta(max_length=_MAX_DIGEST)]
    """A digest of its blocks, or of its links if no dataDef has blocks."""
