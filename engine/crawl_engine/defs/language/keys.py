"""Declares the def keys that are stored in another form than written; `model` declares all others."""

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Struct

from crawl_engine.defs.yaml.node import Entry, YamlNode
from crawl_engine.extract.select.selector_syntax import TableHeader, join_table
from crawl_engine.model.axis import Axis, IndexRange
from crawl_engine.model.declaration import (
    BaseUrl,
    Constant,
    Constants,
    Declared,
    DefKey,
    DigestUser,
    FormTexts,
    HeaderValue,
    Index,
    Kind,
    ListPath,
    QueryHeader,
    RequestText,
    Seconds,
    SelectorOrStep,
    SelectorText,
    Shape,
    StepsOfTask,
    Text,
    Token,
    Url,
    UrlTemplate,
    UserAndPassword,
    Workers,
    Wrapper,
    declarations_of,
)
from crawl_engine.model.definition import DataDef, Definitions, Expectation, Field, FilterRule, Task, TaskGroup
from crawl_engine.model.field_type import OWN_KEYS, STEP_KEYS
from crawl_engine.model.host import AuthKind, HostAuth, HostRule
from crawl_engine.model.link import Link, Method, NextPage, RequestTemplate, TextSource
from crawl_engine.model.locator import Locator, LocatorGroup, SeedColumns, SitemapRules
from crawl_engine.model.output_type import AppenderDef

Axes = Annotated[tuple[Axis, ...], Wrapper("item", "{name: …}")]
AXES = ("items", "dims", "facts")
"""Any of these keys puts a dataDef in axis mode."""
AUTH_KINDS: tuple[AuthKind, ...] = get_args(AuthKind)


class WrittenSitemap(Struct, frozen=True, kw_only=True):
    """A sitemap, and which of its entries to follow."""

    url: Annotated[Url, DefKey("The URL of the sitemap.", examples=("https://shop.example/sitemap.xml",))]
    rules: Annotated[SitemapRules, Shape.INLINE]


class WrittenSeedFile(Struct, frozen=True, kw_only=True):
    """A CSV file with a header; each line is a seed."""

    file: Annotated[ListPath, DefKey("The file, relative to this one.", examples=("seeds.csv",))]
    table: Annotated[SeedColumns | None, Shape.INLINE] = None
    """None: a list with one URL per line."""


class WrittenLocator(Struct, frozen=True, kw_only=True):
    """Where to start: one or more URLs, and the request to send."""

    name: Annotated[
        Text | None,
        DefKey("The locator's name in rows and messages; default: the group's name.", examples=("catalogue",)),
    ] = None
    url: Annotated[
        Url | None,
        DefKey(
            "A URL; `{1..50}`, `{01..12}`, `{0..80..20}` and `{a,b}` expand; relative ones resolve against `baseUrl`.",
            examples=("https://shop.example/", "/catalogue/page-{1..50}.html"),
        ),
    ] = None
    urls: Annotated[tuple[Url, ...], DefKey("Several URLs, each as in `url`.", examples=(["/tea", "/coffee"],))] = ()
    from_: Annotated[
        WrittenSeedFile | None,
        Shape.MAPPING_OR_FILE,
        DefKey(
            "A file with one URL per line, relative to this file; `-` is stdin. Or a mapping: a CSV file.",
            name="from",
            examples=("seeds.txt", "-", {"file": "seeds.csv", "url": "link"}),
        ),
    ] = None
    sitemap: Annotated[
        WrittenSitemap | None,
        Shape.MAPPING_OR_URL,
        DefKey(
            "A sitemap, its URL or a mapping with rules; the crawl starts from its pages.",
            examples=("https://shop.example/sitemap.xml",),
        ),
    ] = None
    method: Annotated[Method | None, DefKey("The HTTP method; default GET, or POST with a body.")] = None
    headers: Annotated[
        Mapping[str, HeaderValue],
        DefKey(
            "Headers to send; `%{env.NAME}` keeps secrets out of the file.",
            examples=({"Authorization": "Bearer %{env.SHOP_TOKEN}"},),
        ),
    ] = {}
    cookies: Annotated[
        Mapping[str, HeaderValue], DefKey("Cookies to send.", examples=({"session": "%{env.SHOP_SESSION}"},))
    ] = {}
    cookie_scope: Annotated[
        Literal["group"] | None,
        DefKey(
            "Send the cookies also along the links of its pages: group, to pages of its group and origin, which are"
            " then pages of their own for each locator with other cookies."
        ),
    ] = None
    body: Annotated[RequestText | None, DefKey("The request body, sent as is.")] = None
    form: Annotated[
        Mapping[str, FormTexts] | None,
        DefKey(
            "Form fields, sent as the request body; braces in their values expand as in `url`, one request each.",
            examples=({"q": "green tea"}, {"q": "{tea,coffee}", "page": "{1..3}"}),
        ),
    ] = None
    json: Annotated[
        Any, DefKey("Data sent as a JSON body; braces in its texts expand as in `url`.", examples=({"page": 1},))
    ] = UNSET
    numbers: Annotated[
        tuple[Text, ...],
        DefKey("Keys of `json` whose texts are sent as numbers.", examples=(["page", "first"],)),
    ] = ()
    until: Annotated[
        Literal["empty"] | None,
        DefKey("Fetch the pages of a range, `{1..}` or `{0..*..20}`, one after another, until one has no record."),
    ] = None


class WrittenPersist(Struct, frozen=True, kw_only=True):
    """A key of Scoopi."""

    data: Annotated[bool | None, DefKey("Without effect: the rows of a stored document are extracted again.")] = None


class WrittenTask(Struct, frozen=True, kw_only=True):
    """One dataDef applied to the group's pages."""

    data_def: Annotated[Text, DefKey("The name of a dataDef.", examples=("book",))]
    steps: Annotated[
        StepsOfTask,
        DefKey(
            "The name of a step set, or a set with the steps to change in it.",
            examples=("htmlUnitDefault", "jsoupDefault", "recordDefault"),
        ),
    ] = None
    persist: Annotated[
        WrittenPersist | None,
        DefKey("A key of Scoopi, without effect: `live` decides whether a stored document serves."),
    ] = None


class WrittenRequest(Struct, frozen=True, kw_only=True):
    """What a link or the next page sends."""

    url: Annotated[
        UrlTemplate | None,
        DefKey(
            "The URL to ask for; `%{field.NAME}` is a value of the record, in `next` `%{NAME}` that of a variable.",
            examples=("/item/%{field.id}", "/api/items?cursor=%{cursor}"),
        ),
    ] = None
    method: Annotated[
        Method | None, DefKey("The HTTP method; default that of the form, else GET, or POST with `form` or `json`.")
    ] = None
    form: Annotated[
        Mapping[str, Constants] | None,
        DefKey(
            "Form fields to send; where the selector selects a form, in place of its own of the same names.",
            examples=({"q": "%{field.sku}"},),
        ),
    ] = None
    json: Annotated[Any, DefKey("Data to send as a JSON body; its texts may hold the variables of `url`.")] = UNSET
    numbers: Annotated[
        tuple[Text, ...],
        DefKey("Keys of `json` whose texts are sent as numbers.", examples=(["page", "first"],)),
    ] = ()
    headers: Annotated[
        Mapping[str, Constant],
        DefKey(
            "Headers to send; they may hold the variables of `url`, and secrets.",
            examples=({"Accept": "application/json", "Referer": "%{document.url}"},),
        ),
    ] = MappingProxyType({})


class WrittenNext(Struct, frozen=True, kw_only=True):
    """How a page leads to the next one of its group: reserved keys, and the selectors of variables, or steps."""

    request: Annotated[RequestTemplate, Shape.INLINE]
    variables: Annotated[Mapping[str, SelectorOrStep], Shape.OTHER_KEYS] = {}
    header: Annotated[
        Text | None,
        DefKey("The relation of the next page in the header `Link`, in place of a request.", examples=("next",)),
    ] = None
    until: Annotated[Literal["empty"] | None, DefKey("Stop at a page without a record.")] = None


class WrittenQuery(Struct, frozen=True, kw_only=True):
    """Where the records are on a page."""

    source: Annotated[TextSource | None, Shape.INLINE] = None
    block: Annotated[
        Text | None,
        DefKey(
            "One record per match; without it the whole page is one record.",
            examples=("li.offer", "xpath: //table//tr[td]", "jmespath: items", "jsonld: Product"),
        ),
    ] = None
    table: Annotated[
        SelectorText | None,
        DefKey(
            "One record per body row of the tables that match; fields name a `column`, by its heading.",
            examples=("table.prices", "xpath: //h2[. = 'Results']/following-sibling::table[1]"),
        ),
    ] = None
    header: Annotated[
        QueryHeader | None,
        DefKey(
            "Of `table`, where the headings are: in the rows of `thead`, else in the leading ones of `th` alone (rows,"
            " default); in the first row; or in the first column (columns), so that each further one is a record. Of a"
            " CSV document the line of the header; default: the first with the columns that the fields name.",
            examples=("rows", "first", "columns", 4),
        ),
    ] = None
    selector: Annotated[Text | None, DefKey("In axis mode: selects the fact of a row.")] = None
    query: Annotated[
        "WrittenQuery | None", DefKey("Where the records are in the documents of `from`: a document in a document.")
    ] = None

    @property
    def innermost(self) -> "WrittenQuery":
        """The query that has the block."""
        return self if self.query is None else self.query.innermost

    @property
    def sources(self) -> tuple[TextSource, ...]:
        """The documents inside the page, from the outside in."""
        inner = () if self.query is None else self.query.sources
        return inner if self.source is None else (self.source, *inner)

    @property
    def blocks(self) -> str | None:
        """The selector of the records."""
        if self.table is None:
            return self.block
        return join_table(self.table, next((one for one in get_args(TableHeader) if one == self.header), "rows"))

    @property
    def header_line(self) -> int | None:
        """The line of the header of a CSV document."""
        return int(self.header) if self.header is not None and self.header.isdecimal() else None


class WrittenStep(Struct, frozen=True, kw_only=True):
    """A step of a set."""

    class_: Annotated[Text, DefKey("A built-in class, a plugin class, or `command`.")]
    previous: Annotated[Text | None, DefKey("The step before it; a step that replaces another keeps its place.")] = None
    next: Annotated[Text | None, DefKey("The step after it, `end`, or `seeder` on a side branch.")] = None
    plugins: Annotated[Any, DefKey("What a built-in class of Scoopi does.")] = None
    options: Annotated[Mapping[str, Any], DefKey("Keyword arguments of the class.")] = MappingProxyType({})
    run: Annotated[tuple[Text, ...], DefKey("The program of a command, and its arguments.")] = ()
    limit: Annotated[Seconds | None, DefKey("Seconds for one page; default: the setting `parse_limit`.")] = None
    workers: Annotated[Workers, DefKey("Pages of a node that it works on at once; default 1.")] = 1


class WrittenAxis(Axis, frozen=True, kw_only=True):
    """An item, dimension or fact as it is written."""

    index: Annotated[Index, DefKey("The index; with `breakAfter` the first one.")] = 1
    index_range: Annotated[
        IndexRange | None,
        Kind("index range"),
        DefKey("The indexes, the last one open for all that the data has.", examples=("2-6", "5-")),
    ] = None

    @property
    def indexes(self) -> IndexRange:
        """The first and the last index."""
        return self.index_range or IndexRange(self.index, None if self.break_after else self.index)

    def to_axis(self) -> Axis:
        """What the engine uses."""
        first, last = self.indexes
        written = {name: getattr(self, name) for name in Axis.__struct_fields__}
        return Axis(**(written | {"first": first, "last": last}))


class WrittenField(Field, frozen=True, kw_only=True):
    """One value of a record."""

    selector: Annotated[
        tuple[SelectorText, ...],
        Shape.ITEM_OR_LIST,
        DefKey(
            "CSS, `xpath: …`, `jmespath: …`, `jsonld: TYPE.path` or `jmespath(CSS): …`; of a list the first that gives"
            " a value; default: the block itself.",
            examples=(
                "h3 a",
                "xpath: .//a[@rel='author']",
                "jmespath: price.amount",
                "jsonld: Product.offers.price",
                [".price-new", ".price"],
            ),
        ),
    ] = ()  # type: ignore[assignment]  # one, or several

    def to_field(self) -> Field:
        """What the engine uses."""
        written = {name: getattr(self, name) for name in Field.__struct_fields__}
        first, *others = self.selector or (None,)
        return Field(**(written | {"selector": first, "fallbacks": tuple(others)}))


class WrittenDataDef(Struct, frozen=True, kw_only=True):
    """What to extract from a page, and which links to follow."""

    query: Annotated[WrittenQuery, DefKey("Where the records are on the page.")] = WrittenQuery()
    fields: Annotated[
        tuple[Field, ...],
        Shape.BY_NAME,
        DefKey("The values of a record by name: the output columns, in this order."),
    ] = ()
    filters: Annotated[tuple[FilterRule, ...], DefKey("Which records to drop.")] = ()
    links: Annotated[tuple[Link, ...], DefKey("Which links to follow.")] = ()
    next: Annotated[NextPage | None, DefKey("The page that follows each page, by a cursor for example.")] = None
    items: Annotated[Axes, DefKey("Axis mode: the items of a table, each `item: {name: …}`.")] = ()
    dims: Annotated[Axes, DefKey("Axis mode: the dimensions of each item.")] = ()
    facts: Annotated[Axes, DefKey("Axis mode: the facts of each item; default: what the query selects.")] = ()
    key: Annotated[
        tuple[Text, ...], DefKey("The fields that identify a row across runs.", examples=(["sku"], ["url"]))
    ] = ()
    unique: Annotated[bool, DefKey("Write one row of each key in a run, the first; default false.")] = False
    expect: Annotated[Expectation | None, DefKey("What a run must give.")] = None


class WrittenAuth(Struct, frozen=True, kw_only=True):
    """The authentication for the pages of a host: one of these keys."""

    basic: Annotated[
        UserAndPassword | None,
        DefKey("A `user:password`, sent with every request for a page.", examples=("user:%{env.PASSWORD}",)),
    ] = None
    bearer: Annotated[
        Token | None, DefKey("A token, sent with every request for a page.", examples=("%{env.TOKEN}",))
    ] = None
    digest: Annotated[
        DigestUser | None,
        DefKey(
            "A `user:password`, with which the challenges of the host are answered.",
            examples=("user:%{env.PASSWORD}",),
        ),
    ] = None


class WrittenDefs(Struct, frozen=True, kw_only=True):
    """All defs of a project, merged from its files."""

    locator_groups: Annotated[tuple[LocatorGroup, ...], Shape.BY_NAME, DefKey("Where to start, by group.")] = ()
    task_groups: Annotated[
        tuple[TaskGroup, ...], Shape.BY_NAME, DefKey("What to do with the pages of each group.")
    ] = ()
    data_defs: Annotated[tuple[DataDef, ...], Shape.BY_NAME, DefKey("What to extract.")] = ()
    steps: Annotated[Mapping[str, Any], DefKey("Step sets by name.")] = {}
    appenders: Annotated[tuple[AppenderDef, ...], Shape.BY_NAME, DefKey("Where to write rows.")] = ()
    hosts: Annotated[
        tuple[HostRule, ...], Shape.BY_NAME, DefKey("Request policy by host, with or without a port.")
    ] = ()
    base_url: Annotated[
        BaseUrl | None, DefKey("The base of relative locator URLs.", examples=("https://shop.example/",))
    ] = None


WRITTEN_FORMS: Mapping[type, type[Struct]] = {
    Definitions: WrittenDefs,
    Locator: WrittenLocator,
    Task: WrittenTask,
    DataDef: WrittenDataDef,
    Field: WrittenField,
    RequestTemplate: WrittenRequest,
    NextPage: WrittenNext,
    HostAuth: WrittenAuth,
    Axis: WrittenAxis,
}
"""The structs that are written in another form, each with the struct that declares its keys."""


def written_form(struct: type[Struct]) -> type[Struct]:
    """What declares the keys of a struct: its written form, else itself."""
    return WRITTEN_FORMS.get(struct, struct)


@cache
def keys_of(struct: type[Struct]) -> dict[str, Declared]:
    """The keys of a mapping by their written names, with the keys of inline structs."""
    declared = declarations_of(written_form(struct))
    keys = dict(declared.keys)
    for _, inline in declared.inline:
        keys |= keys_of(inline)
    return keys


def _field_keys_except(*kept: str) -> tuple[str, ...]:
    return tuple(key for key in keys_of(Field) if key not in kept)


NESTING_EXCLUDES = _field_keys_except(
    "selector", "column", "all", "join", "default", "required", "fields", "convert", "fromStep"
)
"""Keys of a field without a meaning beside `fields`."""
TEXT_KEYS = _field_keys_except(
    "selector", "scope", "column", "all", "default", "required", "type", "fields", "fromStep", *OWN_KEYS
)
"""Keys of a field that say which text it reads, and edit it."""
STEP_EXCLUDES = _field_keys_except("type", *STEP_KEYS, "default", "required", "fromStep")
"""Keys of a field without a meaning beside `fromStep`."""


def is_table(data_def: YamlNode) -> bool:
    """Whether a dataDef is in axis mode."""
    return any(key in data_def.entries for key in AXES)


def innermost_query(data_def: YamlNode) -> YamlNode | None:
    """The query of a dataDef that has the block; None: it has none."""
    query, inner = None, data_def.get("query")
    while inner is not None and inner.kind == "mapping":
        query, inner = inner, inner.get("query")
    return query


def has_records(data_def: YamlNode) -> bool:
    """Whether a dataDef selects its records: by `block`, by `table`, or as documents inside the page."""
    query, outer = innermost_query(data_def), data_def.get("query")
    selects = query is not None and any(query.text_of(key) is not None for key in ("block", "table"))
    return selects or (outer is not None and "as" in outer.entries)


def is_task(node: YamlNode) -> bool:
    """Whether the value of a key of a task group is a task, even if the key is a reserved one."""
    return node.kind == "mapping" and "dataDef" in node.entries


def iter_locators(root: YamlNode) -> Iterator[tuple[str, YamlNode]]:
    """All locators, each with the name of its group."""
    for name, group in root.entries_of("locatorGroups"):
        yield from ((name, locator) for locator in group.node.list_of("locators"))


def written_urls(locator: YamlNode) -> list[YamlNode]:
    """The texts under `url` and `urls`."""
    url = locator.get("url")
    return [node for node in (url, *locator.list_of("urls")) if node is not None and node.kind == "scalar"]


def iter_all_tasks(root: YamlNode) -> Iterator[tuple[str, str, Entry]]:
    """The tasks of all groups: group, name and entry."""
    for group, entry in root.entries_of("taskGroups"):
        yield from ((group, name, task) for name, task in iter_tasks(entry.node))


def data_def_of(task: Entry) -> str:
    """The name of the dataDef of a task; empty if it names none."""
    return task.node.text_of("dataDef") or ""


def iter_tasks(group: YamlNode) -> Iterator[tuple[str, Entry]]:
    """The tasks of a group: its keys that are not reserved and hold a mapping."""
    reserved = keys_of(TaskGroup)
    for name, entry in group.entries.items():
        if is_task(entry.node) or (name not in reserved and entry.node.kind == "mapping"):
            yield name, entry


SECTIONS = tuple(keys_of(Definitions))
"""The keys of a def file."""
