"""The def language: the keys of each mapping and their types."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from engine.defs.scalars import (
    AnyText,
    BaseUrl,
    BatchSize,
    Concurrency,
    ConstantList,
    Delay,
    FilterPattern,
    FormTextList,
    HeaderValue,
    HttpStatus,
    ListPath,
    LocaleName,
    LoginCheck,
    LoginText,
    LoginUrl,
    NonNegativeInteger,
    NumberMark,
    PatternText,
    Percentage,
    Priority,
    QueryKey,
    Replacement,
    RequestText,
    SelectorText,
    SenderUrl,
    Separator,
    Term,
    Text,
    Url,
    UrlTemplate,
    Value,
    list_if_text,
    none_if_false,
    optional,
    sitemap_if_text,
)
from engine.defs.task_terms import TaskGroupTerm
from engine.defs.transport_terms import AuthTerm, ProxyUrl, TlsTerm
from engine.model.output_type import OUTPUT_TYPES, SENDER_TYPES

TYPES = Literal["str", "int", "float", "decimal", "bool", "date", "url", "json", "price", "file"]
METHODS = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class SitemapLinkTerm(Term):
    """Which entries of a sitemap lead into which group; the first rule that takes an entry counts."""

    allow: list[PatternText] = optional("Take only URLs that match one of these regular expressions.")
    deny: list[PatternText] = optional("Take no URLs that match one of these regular expressions.")
    link_group: Text = optional("The task group of these pages; default: the locator's own group.")
    priority: Priority = optional("The priority of these pages; default: that of their group.")


class SitemapTerm(Term):
    """A sitemap, and which of its entries to follow."""

    url: Url = Field(description="The URL of the sitemap.")
    allow: list[PatternText] = optional("Follow only entries whose URL matches one of these regular expressions.")
    deny: list[PatternText] = optional("Never follow entries whose URL matches one of these regular expressions.")
    links: list[SitemapLinkTerm] = optional("Which entries lead into which group; what no rule takes is not followed.")
    since: Literal["lastRun"] = optional("Ask only for pages whose `lastmod` is later than their stored document.")


class LocatorTerm(Term):
    """Where to start: one or more URLs, and the request to send."""

    name: Text = optional("The locator's name in rows and messages; default: the group's name.")
    url: Url = optional("A URL; `{1..50}`, `{01..12}` and `{a,b}` expand; relative ones resolve against `baseUrl`.")
    urls: list[Url] = optional("Several URLs, each as in `url`.")
    from_: ListPath = optional("A file with one URL per line, relative to this file; `-` is stdin.", alias="from")
    sitemap: Annotated[SitemapTerm, BeforeValidator(sitemap_if_text)] = optional(
        "A sitemap, its URL or a mapping with rules; the crawl starts from its pages."
    )
    method: METHODS = optional("The HTTP method; default GET, or POST with a body.")
    headers: dict[str, HeaderValue] = optional("Headers to send; `%{env.NAME}` keeps secrets out of the file.")
    cookies: dict[str, HeaderValue] = optional("Cookies to send.")
    body: RequestText = optional("The request body, sent as is.")
    form: dict[str, FormTextList] = optional(
        "Form fields, sent as the request body; braces in their values expand as in `url`, one request each."
    )
    json_: Any = optional("Data sent as a JSON body; braces in its texts expand as in `url`.", alias="json")
    until: Literal["empty"] = optional(
        "Fetch the pages of a range such as `{1..}` one after another, until one has no record."
    )


class LocatorGroupTerm(Term):
    """Start URLs that share the tasks of the task group of the same name."""

    locators: list[LocatorTerm] = Field(description="Where to start.")


class QueryTerm(Term):
    """Where the records are on a page."""

    block: SelectorText = optional("One record per match; without it the whole page is one record.")
    selector: Text = optional("In axis mode: selects the fact of a row.")


class FieldTerm(Term):
    """One value of a record."""

    selector: SelectorText = optional(
        "CSS, `xpath: …`, `jmespath: …`, `jsonld: TYPE.path` or `jmespath(CSS): …`; default: the block itself."
    )
    scope: Literal["page"] = optional("With page, the selector searches the whole page, not the block.")
    attribute: Text = optional("An attribute's name, or text (default), ownText, html, outerHtml.")
    whitespace: Literal["keep"] = optional("With keep, white space stays as it is in the document.")
    replace: list[Replacement] = optional(
        "Pairs of a regular expression and the text to write for its matches, applied in order before `match`."
    )
    all: bool = optional("Take all matches as a list; default false: the first match.")
    join: AnyText = optional("The separator between the values of a list in CSV; default |.")
    match: PatternText = optional(
        "A regular expression to search in the value; takes group 1 if there is one, else the match."
    )
    split: Separator = optional("The text between the parts of a list: the value is the list of its parts.")
    type: TYPES = optional("The type of the value; default str.")
    decimal_mark: NumberMark = optional("The character before the decimals of a number; default a point.")
    group_mark: NumberMark = optional("The character between the groups of digits of a number; default none.")
    format: Text = optional("The format of a date, or any for dates as people write them; only with `type: date`.")
    locale: LocaleName = optional("The language of dates of the format any, such as de or en-GB.")
    value: Value = optional("A constant, or a text with variables such as `%{document.url}`, instead of a selector.")
    default: Any = optional("The value to use when the field is missing.")
    required: bool = optional("Reject the record if the value is missing; default false.")
    fields: dict[str, "FieldTerm"] = optional("Nested fields: a list of objects, one per match of `selector`.")
    convert: Annotated[list[Text], BeforeValidator(list_if_text)] = optional(
        "A class, or a list of classes, that convert the text after `match` and before `type`."
    )
    from_step: bool = optional("Whether a step of the task fills the field; default false.")


class FilterTerm(Term):
    """A rule that drops records."""

    field: Text = Field(description="The name of a field.")
    pattern: FilterPattern = Field(
        description="A regular expression; the record is dropped if it matches the whole value."
    )


class LinkTerm(Term):
    """Which links of a page to follow, and what to send and carry along."""

    selector: SelectorText = optional("Selects elements of the page; with `inBlock`, of the block of each record.")
    in_block: bool = optional("Whether the selector searches the block of each record; default false.")
    carry: Annotated[list[Text], BeforeValidator(list_if_text)] = optional(
        "Fields whose values go to the linked page, which reads them as `%{carried.NAME}`."
    )
    url: UrlTemplate = optional("The URL instead of a selector; `%{field.NAME}` is a value of the record.")
    method: METHODS = optional("The HTTP method; default that of the form, else GET, or POST with `form` or `json`.")
    form: dict[str, ConstantList] = optional(
        "Form fields to send; where the selector selects a form, in place of its own of the same names."
    )
    json_: Any = optional("Data to send as a JSON body; its texts may hold `%{field.NAME}`.", alias="json")
    attribute: Text = optional("The attribute that holds the URL; default href.")
    link_group: Text = optional("The task group of the linked pages; default: the page's own group.")
    allow: list[PatternText] = optional("Follow only URLs that match one of these regular expressions.")
    deny: list[PatternText] = optional("Never follow URLs that match one of these regular expressions.")
    same_host: bool = optional("Stay on the page's host; default true.")
    max_depth: NonNegativeInteger = optional("Do not follow links to pages deeper than this.")
    priority: Priority = optional("The priority of the linked pages; default: the group's.")


class NextTerm(Term):
    """How a page leads to the next one of its group: reserved keys, and the selectors of variables by name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, SelectorText] = Field(init=False)

    url: UrlTemplate = optional("The URL of the next page; `%{NAME}` is the value of a variable; default: the page's.")
    method: METHODS = optional("The HTTP method; default GET, or POST with `form` or `json`.")
    form: dict[str, ConstantList] = optional("Form fields to send; `%{NAME}` is the value of a variable.")
    json_: Any = optional("Data to send as a JSON body; `%{NAME}` is the value of a variable.", alias="json")
    until: Literal["empty"] = optional("Stop at a page without a record.")


class ExpectTerm(Term):
    """What a run must give; a run that does not ends with exit code 1."""

    rows: NonNegativeInteger = optional("Rows at least; a run that a limit or an operator ended is not judged by it.")
    rejected: Percentage = optional("The share of the records that may be rejected, such as 1%.")
    filled: dict[str, Percentage] = optional("By field, the share of the records in which it must be filled.")


AXES = ("items", "dims", "facts")
"""Any of these keys puts a dataDef in axis mode."""


class DataDefTerm(Term):
    """What to extract from a page, and which links to follow."""

    query: QueryTerm = optional("Where the records are on the page.")
    fields: dict[str, FieldTerm] = optional("The values of a record by name: the output columns, in this order.")
    filters: list[FilterTerm] = optional("Which records to drop.")
    links: list[LinkTerm] = optional("Which links to follow.")
    next: NextTerm = optional("The page that follows each page, by a cursor for example.")
    items: Any = optional("Axis mode: the items of a table, each `item: {name: …}`.")
    dims: Any = optional("Axis mode: the dimensions of each item.")
    facts: Any = optional("Axis mode: the facts of each item; default: what the query selects.")
    key: list[Text] = optional("The fields that identify a row across runs.")
    expect: ExpectTerm = optional("What a run must give.")


class BlockSignTerm(Term):
    """An answer by which the site refuses the crawler: all keys of a sign must apply."""

    status: HttpStatus = optional("The HTTP status.")
    match: Text = optional("A text in the first 8 kB of the body, in capitals or not.")


class LoginTerm(Term):
    """How to log in to a host, once before its first page and again when the login is lost."""

    url: LoginUrl = Field(description="The login page, relative to the host or absolute.")
    form: dict[str, LoginText] = Field(
        description="The fields to fill in; the others keep what the page has, hidden ones too."
    )
    selector: SelectorText = optional("Selects the form; default: the first one that has these fields.")
    check: LoginCheck = optional("What each page has while the login lasts; a page without it is asked for again.")
    on_lost: Literal["relogin", "pause"] = optional(
        "What follows when the login is lost: relogin (default), or pause, until an operator resumes the host.",
        alias="on_lost",
    )


class HostTerm(Term):
    """Request policy for one host."""

    delay: Delay = optional("Seconds between two requests.")
    concurrency: Concurrency = optional("The maximum number of concurrent requests.")
    headers: dict[str, HeaderValue] = optional("Headers to send to this host.")
    cookies: dict[str, HeaderValue] = optional("Cookies to send to this host.")
    robots: bool = optional("Whether to obey robots.txt.")
    nofollow: bool = optional("Whether to skip links marked nofollow; default true.")
    private: bool = optional("Whether the host may be at a private, loopback or other guarded address; default false.")
    throttle: Literal["auto", "off"] = optional("With auto, the delay follows the time the host takes to respond.")
    blocked: Annotated[list[BlockSignTerm], BeforeValidator(none_if_false)] = optional(
        "Further signs of an answer that blocks the crawler; false turns off the built-in ones."
    )
    cookie_jar: Literal["shared", "perNode", "off"] = optional(
        "Who keeps the cookies of the site: all nodes (default with `login`), each node its own (default), nobody."
    )
    login: LoginTerm = optional("How to log in before the first page of the host.")
    drop: list[QueryKey] = optional(
        "Query keys, with `*` and `?` as wildcards, to remove from URLs of links, sitemaps and redirects."
    )
    auth: AuthTerm = optional("HTTP authentication for the pages of this host.")
    proxy: Annotated[list[ProxyUrl], BeforeValidator(list_if_text)] = optional(
        "The URL of an HTTP proxy, or a list of them, which requests take in turn."
    )
    tls: TlsTerm = optional("Which certificates are accepted and shown.")
    http2: bool = optional("Whether to offer HTTP/2 over https; default false.")


class AppenderTerm(Term):
    """One output for rows: one file per dataDef, a receiver that they are sent to, or what a class makes of them."""

    type: Text = optional(
        "The type: csv (default), jsonl or sqlite files; http or command; or a class, an Encoder or an Appender.",
        examples=[*OUTPUT_TYPES, *SENDER_TYPES],
    )
    data_defs: list[Text] = optional("The dataDefs whose rows are written; default: all.")
    delimiter: AnyText = optional("The character between CSV values; default a comma.", min_length=1, max_length=1)
    escape_formulas: bool = optional("Whether a leading ' keeps spreadsheets from evaluating text as a formula.")
    path: Text = optional("The file name; default: the name of the dataDef with the extension of the type.")
    options: dict[str, Any] = optional("Keyword arguments of the class.")
    url: SenderUrl = optional("Where http posts the rows; may hold `%{env.NAME}`.")
    headers: dict[str, HeaderValue] = optional("Headers of http; `%{env.NAME}` keeps secrets out of the file.")
    run: list[Text] = optional("The program of command, and its arguments.")
    batch: BatchSize = optional("The most rows that http or command sends at once; default 100.")
    limit: Any = optional(
        "Seconds for a batch of rows, such as 30; default: the setting `parse_limit`, of http and command `deadline`.",
        json_schema_extra={"type": ["number", "string"]},
    )


class Defs(Term):
    """All defs of a project, merged from its files."""

    locator_groups: dict[str, LocatorGroupTerm] = optional("Where to start, by group.")
    task_groups: dict[str, TaskGroupTerm] = optional("What to do with the pages of each group.")
    data_defs: dict[str, DataDefTerm] = optional("What to extract.")
    steps: dict[str, Any] = optional("Step sets by name.")
    appenders: dict[str, AppenderTerm] = optional("Where to write rows.")
    hosts: dict[str, HostTerm] = optional("Request policy by host, with or without a port.")
    base_url: BaseUrl = optional("The base of relative locator URLs.")
