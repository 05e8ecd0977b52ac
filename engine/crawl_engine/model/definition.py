"""The validated defs, built by `crawl_engine.defs`, stored as JSON and read by every node."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache, cached_property
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Struct, field

from crawl_engine.host_rules import HostRules
from crawl_engine.model.axis import AxisTable
from crawl_engine.model.declaration import (
    AnyText,
    Constant,
    DefKey,
    Duration,
    FilterPattern,
    LocaleName,
    NonNegativeInteger,
    NumberMark,
    PatternText,
    Percentage,
    PositiveInteger,
    Priority,
    Replacement,
    Separator,
    Shape,
    Text,
    TypeOfField,
    Value,
)
from crawl_engine.model.field_type import find_field_type
from crawl_engine.model.host import HostRule
from crawl_engine.model.link import Link, NextPage, TextSource
from crawl_engine.model.locator import LocatorGroup, Recrawl
from crawl_engine.model.output_type import AppenderDef
from crawl_engine.model.step import ChainStep, GroupLoading, PluginFile
from crawl_engine.model.stored_form import NO_POSITION, OMIT_DEFAULT, SourcePosition, from_plain, to_plain


def _empty_mapping() -> Mapping[str, str]:
    return MappingProxyType({})


class Field(Struct, frozen=True, kw_only=True):
    """One value of a record.

    Select → attribute → whitespace → decode → replace → match → split → convert → map → blank = missing → default →
    type → required.
    """

    name: str
    selector: str | None = None
    """None: the block itself."""
    fallbacks: tuple[str, ...] = ()
    """Selectors for blocks in which the ones before give no value, in this order."""
    scope: Annotated[
        Literal["page", "from"] | None,
        DefKey("The selector searches the whole page, not the block; with from, the document of the block."),
    ] = None
    column: Annotated[
        Text | None,
        DefKey(
            "The heading of a column: `selector` and `attribute` see its cell. Only with `query.table`.",
            examples=("Price", "2023 / H1"),
        ),
    ] = None
    attribute: Annotated[
        Text,
        DefKey(
            "An attribute's name, or text (default), ownText, html, outerHtml.",
            examples=("text", "ownText", "html", "outerHtml", "href", "src", "srcset", "title"),
        ),
    ] = "text"
    largest: Annotated[bool, DefKey("Of `attribute: srcset`, take the largest candidate; default false.")] = False
    header: Annotated[
        Literal["columns"] | None, OMIT_DEFAULT,
        DefKey("Of `type: table`: the headings stand in the first column, and each further one is an object."),
    ] = None  # fmt: skip
    whitespace: Annotated[Literal["keep"] | None, DefKey("With keep, white space stays as it is in the document.")] = (
        None
    )
    decode: Annotated[
        Literal["url", "html", "base64"] | None,
        DefKey("How the text is written: percent-encoded, with references such as &amp;, or in base64."),
    ] = None
    replace: Annotated[
        tuple[Replacement, ...],
        DefKey(
            "Pairs of a regular expression and the text to write for its matches, applied in order before `match`.",
            examples=([["[€ ]", ""]],),
        ),
    ] = ()
    all: Annotated[bool, DefKey("Take all matches as a list; default false: the first match.")] = False
    join: Annotated[
        AnyText, DefKey("The separator between the values of a list in CSV; default |.", examples=("|", " "))
    ] = "|"
    match: Annotated[
        PatternText | None,
        DefKey(
            "A regular expression to search in the value; takes group 1 if there is one, else the match.",
            examples=("[A-Z]+-[0-9]+", "since (.+)"),
        ),
    ] = None
    split: Annotated[
        Separator | None,
        DefKey("The text between the parts of a list: the value is the list of its parts.", examples=(",", " / ")),
    ] = None
    map: Annotated[
        Mapping[str, Constant],
        DefKey(
            "By text, the value that it stands for; * for all others, which are missing otherwise.",
            examples=({"In stock": True, "*": False},),
        ),
    ] = field(default_factory=_empty_mapping)
    type: Annotated[TypeOfField, DefKey("The type of the value; default str.")] = "str"
    decimal_mark: Annotated[
        NumberMark | None,
        DefKey("The character before the decimals of a number; default a point.", examples=(",",)),
    ] = None
    group_mark: Annotated[
        NumberMark | None,
        DefKey("The character between the groups of digits of a number; default none.", examples=(".", " ")),
    ] = None
    magnitudes: Annotated[
        bool,
        DefKey("Read words of magnitude behind a number, such as 15.5k or 2 Mio.; default false. A price reads them."),
        OMIT_DEFAULT,
    ] = False
    format: Annotated[
        Text | None,
        DefKey(
            "The format of a date, unix or unix-ms for seconds or milliseconds since 1970, or any for dates as people "
            "write them; only with `type: date`.",
            examples=("%d %B %Y", "%Y-%m-%d", "unix", "any"),
        ),
    ] = None
    locales: Annotated[
        tuple[LocaleName, ...],
        Shape.ITEM_OR_LIST,
        DefKey(
            "The language of dates of the format any, and of magnitudes, such as de, or an XPath that finds it.",
            name="locale",
            examples=("de", "en-GB", ["de", "fr"], "xpath: string(/html/@lang)"),
        ),
    ] = ()
    value: Annotated[
        Value | None,
        DefKey(
            "A constant, or a text with variables such as `%{document.url}`, instead of a selector.",
            examples=("%{document.url}", "%{locator.name}", "%{run.time}"),
        ),
    ] = None
    default: Annotated[Any, DefKey("The value to use when the field is missing.", examples=("", 0, False))] = None
    has_default: bool = False
    required: Annotated[bool, DefKey("Reject the record if the value is missing; default false.")] = False
    fields: Annotated[
        tuple["Field", ...], Shape.BY_NAME, DefKey("Nested fields: a list of objects, one per match of `selector`.")
    ] = ()
    convert: Annotated[
        tuple[Text, ...],
        Shape.ITEM_OR_LIST,
        DefKey("A class, or a list of classes, that convert the text after `match` and before `type`."),
    ] = ()
    from_step: Annotated[bool, DefKey("Whether a step of the task fills the field; default false.")] = False
    place: SourcePosition = NO_POSITION
    selector_place: SourcePosition = NO_POSITION
    """Of its selector, or else of its column."""

    @property
    def counted_names(self) -> tuple[str, ...]:
        """The names under which records without a value are counted: its own, and `NAME[1]` for its first selector.

        Of a list of selectors all but the last have such a name: it shows when another one takes over.
        """
        return (self.name, *[f"{self.name}[{number}]" for number in range(1, len(self.fallbacks) + 1)])

    @property
    def is_list(self) -> bool:
        """Whether its value is a list of values."""
        return self.all or self.split is not None

    @property
    def parts(self) -> tuple["Field", ...]:
        """The values in its value, if that is an object whose keys are known."""
        return () if self.is_list else _parts_of(self.type)


@cache
def _parts_of(type_: str) -> tuple[Field, ...]:
    return tuple([Field(name=name, type=inner) for name, inner in find_field_type(type_).parts])


class FilterRule(Struct, frozen=True, kw_only=True):
    """A rule that drops records."""

    field: Annotated[Text, DefKey("The name of a field.")]
    pattern: Annotated[
        FilterPattern,
        DefKey("A regular expression; the record is dropped if it matches the whole value.", examples=("", "0\\.00")),
    ]
    place: SourcePosition = NO_POSITION


class DataDef(Struct, frozen=True, kw_only=True):
    """What to extract from a page."""

    name: str
    sources: tuple[TextSource, ...] = ()
    """Where its documents are inside the page, from the outside in; empty: it reads the page."""
    block: str | None = None
    header_line: Annotated[int | None, OMIT_DEFAULT] = None
    """Of a CSV document: the line of its header; None: its columns show it."""
    fields: tuple[Field, ...] = ()
    filters: tuple[FilterRule, ...] = ()
    links: tuple[Link, ...] = ()
    key: tuple[str, ...] = ()
    unique: bool = False
    """Whether a key counts once a run: its first row is written."""
    code: str = ""
    """A hash of the code of its converters."""
    axis: AxisTable | None = None
    """The table of a dataDef in axis mode; its `fields` are then only the columns."""
    next: NextPage | None = None
    """None: its pages do not name a next page."""
    place: SourcePosition = NO_POSITION
    block_place: SourcePosition = NO_POSITION
    """Of the selector of its records."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The output's columns, in written order."""
        return tuple(f.name for f in self.fields)

    def output_columns(self, appender: AppenderDef) -> dict[tuple[str, ...], Field]:
        """The columns of an output by their paths in a row: all, or those of `columns` in that order.

        Where the parts of a field are columns, its name chooses all of them, `FIELD.PART` one.
        """
        every: dict[tuple[str, ...], Field] = {}
        for field_ in self.fields:
            if field_.parts and appender.divides(field_.type):
                every.update(((field_.name, part.name), part) for part in field_.parts)
            else:
                every[(field_.name,)] = field_
        if not appender.columns:
            return every
        names = {path: (path[0], ".".join(path), appender.column_name(path)) for path in every}
        return {path: part for name in appender.columns for path, part in every.items() if name in names[path]}


class Task(Struct, frozen=True, kw_only=True):
    """One dataDef applied to the pages of a group."""

    name: str
    data_def: str
    steps: str | None = None
    chain: tuple[ChainStep, ...] = ()
    """The main line, then side branches; empty: the default chain."""
    code: str = ""
    """A hash of the plugin code in the chain, without that of its loader."""
    loader_code: str = ""
    """A hash of the plugin code of its loader."""
    place: SourcePosition = NO_POSITION


class TaskGroup(Struct, frozen=True, kw_only=True):
    """What to do with the pages of a group: reserved keys, and tasks by name."""

    name: str
    tasks: Annotated[tuple[Task, ...], Shape.OTHER_KEYS] = ()
    live: Annotated[
        Duration | None,
        DefKey(
            "How long a stored document replaces a fetch; an ISO 8601 duration such as P1D; default PT0S.",
            examples=("P1D", "PT12H", "PT0S"),
        ),
    ] = None
    """None: the setting `live`."""
    max_depth: Annotated[
        NonNegativeInteger | None,
        DefKey("Do not follow links deeper than this; a locator's page has depth 0.", examples=(5,)),
    ] = None
    max_pages: Annotated[
        PositiveInteger | None, DefKey("The maximum number of pages of the group to fetch.", examples=(10000,))
    ] = None
    priority: Annotated[
        Priority, DefKey("Pages with a higher priority are fetched first; default 0.", examples=(0, 10))
    ] = 0
    documents: Annotated[bool, DefKey("Whether stored pages are kept beyond the end of their run; default true.")] = (
        True
    )
    loader: Annotated[
        GroupLoading | None,
        Shape.MAPPING_OR_KEY,
        DefKey("What loads the pages: browser; default: the crawler's own client.", examples=("browser",)),
    ] = None
    canonical: Annotated[
        bool,
        DefKey("Whether a page whose canonical URL is another one is skipped in favour of that; default false."),
    ] = False
    revalidate: Annotated[
        bool,
        DefKey(
            "Whether stored pages are asked for with their ETag and Last-Modified, and serve if they are the newest."
        ),
    ] = False
    redirects: Annotated[
        Literal["linked"] | None, OMIT_DEFAULT, DefKey("With linked, redirects to where no link leads are skipped.")
    ] = None
    confirm_end: Annotated[
        bool,
        OMIT_DEFAULT,
        DefKey("Whether an empty end of a chain is asked for once more; default true.", name="confirmEnd"),
    ] = True
    recrawl: Annotated[
        Recrawl | None, DefKey("How often pages are asked for again, by how often each has changed.")
    ] = None
    """Replaces `live`."""
    place: SourcePosition = NO_POSITION


class Expectation(Struct, frozen=True, kw_only=True):
    """What a run must give; a run that gives less ends with exit code 1."""

    name: str
    """The name of the dataDef."""
    rows: Annotated[
        NonNegativeInteger | None,
        DefKey("Rows at least; a run that a limit or an operator ended is not judged by it."),
    ] = None
    rejected: Annotated[Percentage | None, DefKey("The share of the records that may be rejected, such as 1%.")] = None
    filled: Annotated[
        Mapping[str, Percentage], DefKey("By field, the share of the records in which it must be filled.")
    ] = field(default_factory=lambda: MappingProxyType({}))
    place: SourcePosition = NO_POSITION


class Definitions(Struct, frozen=True, kw_only=True, dict=True):
    """One accepted set of defs."""

    locator_groups: tuple[LocatorGroup, ...] = ()
    task_groups: tuple[TaskGroup, ...] = ()
    data_defs: tuple[DataDef, ...] = ()
    hosts: tuple[HostRule, ...] = ()
    appenders: tuple[AppenderDef, ...] = (AppenderDef(name="rows"),)
    expectations: tuple[Expectation, ...] = ()
    """Kept beside the dataDefs: a change of them makes no stored page stale."""
    plugins: tuple[PluginFile, ...] = ()
    base_url: str | None = None
    files: tuple[str, ...] = ()
    """The files that were read, in path order."""

    def task_group(self, name: str) -> TaskGroup | None:
        """The task group of that name."""
        group: TaskGroup | None = self._by_name("task_groups").get(name)
        return group

    def data_def(self, name: str) -> DataDef | None:
        """The dataDef of that name."""
        data_def: DataDef | None = self._by_name("data_defs").get(name)
        return data_def

    def host_rule(self, host_key: str) -> HostRule | None:
        """The rule for a host (`name:port`), as `HostRules` chooses it."""
        return self._host_rules.find(host_key)

    def allows_private(self, host: str, port: int) -> bool:
        """Whether a host may be at a guarded address: by its rule with the port, else by the one without.

        Patterns name no host.
        """
        rules = self._by_name("hosts")
        for name in (f"{host}:{port}", host):
            rule: HostRule | None = rules.get(name)
            if rule is not None and rule.private is not None:
                return rule.private
        return False

    def has_host_rule(self, host: str) -> bool:
        """Whether a rule names the host, with any port."""
        return any(rule.name == host or rule.name.startswith(f"{host}:") for rule in self.hosts)

    def appenders_of(self, data_def: str) -> tuple[AppenderDef, ...]:
        """The outputs that rows of a dataDef go to."""
        return tuple(a for a in self.appenders if not a.data_defs or data_def in a.data_defs)

    @cached_property
    def _host_rules(self) -> HostRules[HostRule]:
        return HostRules({rule.name: rule for rule in self.hosts})

    @cached_property
    def _index(self) -> dict[str, dict[str, Any]]:
        return {}

    def _by_name(self, attribute: str) -> dict[str, Any]:
        if attribute not in self._index:
            self._index[attribute] = {item.name: item for item in getattr(self, attribute)}
        return self._index[attribute]

    def to_json(self) -> str:
        """The form that `from_json` reads."""
        return json.dumps(to_plain(self), ensure_ascii=False, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Definitions":
        """The defs of a stored version."""
        definitions = from_plain(cls, json.loads(text))
        assert isinstance(definitions, cls)
        return definitions


def definition_hash(part: Any) -> str:
    """A hash of the meaning of a part of the defs, 32 hex digits: formatting and positions do not count."""
    text = json.dumps(to_plain(part, places=False), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
