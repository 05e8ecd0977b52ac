"""The def language, mapping by mapping: which keys there are and what each holds. Knows no relations between keys."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from engine.defs.scalars import (
    AnyText,
    BaseUrl,
    Delay,
    Duration,
    FilterPattern,
    HeaderValue,
    NonNegativeInteger,
    PatternText,
    PositiveInteger,
    Priority,
    RequestText,
    RequestTextList,
    SelectorText,
    Term,
    Text,
    Url,
    Value,
    optional,
)
from engine.model.output_type import OutputTypeName

TYPES = Literal["str", "int", "float", "decimal", "bool", "date", "url", "json"]
METHODS = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class LocatorTerm(Term):
    """Where to start: one URL or many, and what is sent."""

    name: Text = optional("Names the locator in rows and messages; default: the group's name.")
    url: Url = optional("A URL; `{1..50}`, `{01..12}` and `{a,b}` expand; relative ones resolve against `baseUrl`.")
    urls: list[Url] = optional("Several URLs, each as in `url`.")
    from_: Text = optional("A file of one URL a line, relative to this file; `-` is stdin.", alias="from")
    sitemap: Url = optional("The URL of a sitemap whose pages are the start.")
    method: METHODS = optional("The HTTP method; default GET, or POST where a body is written.")
    headers: dict[str, HeaderValue] = optional("Headers to send; `%{env.NAME}` keeps secrets out of the file.")
    cookies: dict[str, HeaderValue] = optional("Cookies to send.")
    body: RequestText = optional("The request's body, as it is.")
    form: dict[str, RequestTextList] = optional("The fields of a form, sent as its body.")
    json_: Any = optional("Data sent as a JSON body.", alias="json")


class LocatorGroupTerm(Term):
    """Start URLs that share the tasks of the task group of the same name."""

    locators: list[LocatorTerm] = Field(description="Where to start.")


class PersistTerm(Term):
    """What may be used again in later runs."""

    data: bool = optional("Whether rows are used again while the document and the dataDef are unchanged; default true.")


class TaskTerm(Term):
    """One dataDef applied to the group's pages."""

    data_def: Text = Field(description="The name of a dataDef.")
    steps: Any = optional("The name of a step set.", json_schema_extra={"type": "string"})
    persist: PersistTerm = optional("What of this task may be used again in later runs.")


class TaskGroupTerm(Term):
    """What to do with the pages of a group: its tasks by name, beside the reserved keys."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, TaskTerm] = Field(init=False)

    live: Duration = optional(
        "How long a stored document serves instead of a fetch; ISO 8601, such as P1D; default PT0S."
    )
    max_depth: NonNegativeInteger = optional("Links deeper than this are not followed; a locator's page has depth 0.")
    max_pages: PositiveInteger = optional("At most so many pages of the group are fetched.")
    priority: Priority = optional("Pages of a higher priority go first; default 0.")


class QueryTerm(Term):
    """Where records are on a page."""

    not_built: ClassVar[Mapping[str, str]] = {"selector": "axis mode (a query's own selector)"}

    block: SelectorText = optional("One record for each match; without it the whole page is one record.")


class FieldTerm(Term):
    """One value of a record."""

    selector: SelectorText = optional("CSS, or `xpath: …`, or `jmespath: …`; without it, the block itself.")
    attribute: Text = optional("An attribute's name, or text (default), ownText, html, outerHtml.")
    all: bool = optional("Take every match, as a list; default false: the first.")
    join: AnyText = optional("What stands between the values of a list in CSV; default |.")
    match: PatternText = optional(
        "A regular expression searched in the value: group 1 if there is one, else the match."
    )
    type: TYPES = optional("The type of the value; default str.")
    format: Text = optional("How a date is written; with `type: date` only.")
    value: Value = optional("A constant, or a text with variables such as `%{document.url}`, instead of a selection.")
    default: Any = optional("What a missing value becomes.")
    required: bool = optional("Reject the record where the value is missing; default false.")
    fields: dict[str, "FieldTerm"] = optional("Nested fields: a list of objects, one for each match of `selector`.")


class FilterTerm(Term):
    """Drops a record."""

    field: Text = Field(description="The name of a field.")
    pattern: FilterPattern = Field(description="A regular expression; the record is dropped where all of it matches.")


class LinkTerm(Term):
    """Which links of a page are followed."""

    selector: SelectorText = Field(description="Elements of the whole page, never of the block alone.")
    attribute: Text = optional("The attribute that holds the URL; default href.")
    link_group: Text = optional("The task group of the pages found; default: the page's own group.")
    allow: list[PatternText] = optional("Follow only URLs in which one of these regular expressions is found.")
    deny: list[PatternText] = optional("Never follow URLs in which one of these regular expressions is found.")
    same_host: bool = optional("Stay on the page's host; default true.")
    max_depth: NonNegativeInteger = optional("Do not follow into pages deeper than this.")
    priority: Priority = optional("The priority of the pages found; default: the group's.")


AXES = ("items", "dims", "facts")
"""Any of these keys makes a dataDef one of axis mode."""


class DataDefTerm(Term):
    """What to extract from a page, and which of its links to follow."""

    query: QueryTerm = optional("Where records are on the page.")
    fields: dict[str, FieldTerm] = optional("The record's values by name: the columns of the output, in written order.")
    filters: list[FilterTerm] = optional("Which records are dropped.")
    links: list[LinkTerm] = optional("Which links are followed.")
    key: list[Text] = optional("The fields that make a row the same across runs.")


class HostTerm(Term):
    """Manners for one host."""

    not_built: ClassVar[Mapping[str, str]] = {
        "login": "logging in before the crawl",
        "proxy": "a proxy",
        "tls": "choosing TLS settings",
        "http2": "HTTP/2",
        "throttle": "throttling by itself",
        "private": "crawling private addresses by a key",
        "auth": "HTTP authentication by a key",
    }

    delay: Delay = optional("Seconds between two requests.")
    concurrency: PositiveInteger = optional("At most so many requests at once.")
    headers: dict[str, HeaderValue] = optional("Headers to send to this host.")
    cookies: dict[str, HeaderValue] = optional("Cookies to send to this host.")
    robots: bool = optional("Whether robots.txt is obeyed.")
    nofollow: bool = optional("Whether links marked nofollow are left alone; default true.")


class AppenderTerm(Term):
    """One output of rows: one file for each dataDef."""

    type: OutputTypeName = optional("The kind of file; default csv.")
    data_defs: list[Text] = optional("Whose rows are written; default: those of every dataDef.")
    delimiter: AnyText = optional(
        "The character between two values of CSV; default a comma.", min_length=1, max_length=1
    )
    path: Text = optional("The file's name; default: the dataDef's, with the ending of the type.")


class Defs(Term):
    """All defs of a project, merged over its files."""

    locator_groups: dict[str, LocatorGroupTerm] = optional("Where to start, by group.")
    task_groups: dict[str, TaskGroupTerm] = optional("What to do with the pages of a group.")
    data_defs: dict[str, DataDefTerm] = optional("What to extract.")
    steps: dict[str, Any] = optional("Step sets by name.")
    appenders: dict[str, AppenderTerm] = optional("Where rows are written.")
    hosts: dict[str, HostTerm] = optional("Manners by host, with or without a port.")
    base_url: BaseUrl = optional("What relative locator URLs resolve against.")
