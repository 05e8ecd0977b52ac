"""The validated defs, built by `engine.defs`, stored as JSON and read by every node."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct, field

from engine.model.axis import AxisTable
from engine.model.host import CookieJarMode, HostAuth, HostRoute, LoginRule
from engine.model.link import Link, NextPage
from engine.model.locator import Recrawl, SitemapRules
from engine.model.step import ChainStep, PluginFile
from engine.model.stored_form import NO_POSITION, SourcePosition, from_plain, to_plain


def _empty_mapping() -> Mapping[str, str]:
    return MappingProxyType({})


AppenderKind = Literal["built-in", "encoder", "appender", "sender"]
FieldType = Literal["str", "int", "float", "decimal", "bool", "date", "url", "json", "price", "file"]


class Field(Struct, frozen=True, kw_only=True):
    """One value of a record.

    Select → attribute → whitespace → replace → match → split → convert → blank = missing → default → type → required.
    """

    name: str
    selector: str | None = None
    attribute: str = "text"
    all: bool = False
    join: str = "|"
    match: str | None = None
    type: FieldType = "str"
    format: str | None = None
    value: str | None = None
    """A constant, or a text with `%{…}` variables; replaces the selection."""
    default: Any = None
    has_default: bool = False
    required: bool = False
    fields: tuple["Field", ...] = ()
    """Nested fields: the value is a list with an object for each match of `selector`."""
    convert: tuple[str, ...] = ()
    """Classes of users' code that convert the text, in this order."""
    from_step: bool = False
    """Whether a step fills it, and no selector."""
    scope: Literal["page"] | None = None
    """`page`: the selector searches the whole page; None: the block."""
    whitespace: Literal["keep"] | None = None
    """`keep`: the text as it is in the document; None: normalized."""
    replace: tuple[tuple[str, ...], ...] = ()
    """Pairs of a pattern and the text that replaces its matches, in this order."""
    split: str | None = None
    """The separator of the parts of a text: the value is a list."""
    decimal_mark: str | None = None
    group_mark: str | None = None
    locale: str | None = None
    """The language of dates of the format `any`."""
    place: SourcePosition = NO_POSITION

    @property
    def is_list(self) -> bool:
        """Whether its value is a list of values."""
        return self.all or self.split is not None


class FilterRule(Struct, frozen=True, kw_only=True):
    """Drops a record if the text of its field matches the whole pattern."""

    field: str
    pattern: str
    place: SourcePosition = NO_POSITION


class DataDef(Struct, frozen=True, kw_only=True):
    """What to extract from a page."""

    name: str
    block: str | None = None
    fields: tuple[Field, ...] = ()
    filters: tuple[FilterRule, ...] = ()
    links: tuple[Link, ...] = ()
    key: tuple[str, ...] = ()
    code: str = ""
    """A hash of the code of its converters."""
    axis: AxisTable | None = None
    """The table of a dataDef in axis mode; its `fields` are then the columns alone."""
    next: NextPage | None = None
    """None: its pages lead to no next one."""
    place: SourcePosition = NO_POSITION

    @property
    def columns(self) -> tuple[str, ...]:
        """The output's columns, in written order."""
        return tuple(f.name for f in self.fields)


class Task(Struct, frozen=True, kw_only=True):
    """One dataDef applied to the pages of a group."""

    name: str
    data_def: str
    steps: str | None = None
    chain: tuple[ChainStep, ...] = ()
    """The main line, then side branches; empty: the default chain."""
    code: str = ""
    """A hash of the users' code in the chain, without that of its loader."""
    loader_code: str = ""
    """A hash of the users' code of its loader."""
    place: SourcePosition = NO_POSITION


class TaskGroup(Struct, frozen=True, kw_only=True):
    """The tasks for the pages of the locator group of the same name."""

    name: str
    tasks: tuple[Task, ...] = ()
    live: float | None = None
    """Seconds for which a stored document replaces a fetch; None: the setting `live`."""
    max_depth: int | None = None
    max_pages: int | None = None
    priority: int = 0
    documents: bool = True
    """Whether the bodies of its pages are kept beyond the end of their run."""
    canonical: bool = False
    """Whether a page that names another URL as its canonical one is skipped in favour of that."""
    revalidate: bool = False
    """Whether stored documents are asked for with what tells the site which version they are."""
    recrawl: Recrawl | None = None
    """Takes the place of `live`; None: that applies."""
    place: SourcePosition = NO_POSITION


class Locator(Struct, frozen=True, kw_only=True):
    """Where to start. URLs are as written: seeding expands braces and resolves relative URLs."""

    name: str
    urls: tuple[str, ...] = ()
    from_file: str | None = None
    """Path of a file with one URL per line; `-` is stdin. Already resolved against the defs file that names it."""
    sitemap: str | None = None
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=_empty_mapping)
    cookies: Mapping[str, str] = field(default_factory=_empty_mapping)
    body: str | None = None
    content_type: str | None = None
    """Set where the body was written as `form` or `json`."""
    body_pieces: tuple[str, ...] = ()
    """Of a body with ranges or lists: its literals, and at odd positions the braces as written. Else empty."""
    sitemap_rules: SitemapRules | None = None
    """None: all entries of the sitemap are followed."""
    until_empty: bool = False
    """Whether its pages are fetched one after another, until one has no record."""
    place: SourcePosition = NO_POSITION


class LocatorGroup(Struct, frozen=True, kw_only=True):
    """A named set of start URLs that share tasks."""

    name: str
    locators: tuple[Locator, ...] = ()
    place: SourcePosition = NO_POSITION


class BlockSign(Struct, frozen=True, kw_only=True):
    """An answer with this status, and this text in the first 8 kB of its body, is a refusal of the crawler."""

    status: int | None = None
    match: str | None = None
    """Compared without regard to case."""


class HostRule(Struct, frozen=True, kw_only=True):
    """Rules for one host. A `name` without a port matches every port. None: the setting of the same name."""

    name: str
    delay: float | None = None
    concurrency: int | None = None
    headers: Mapping[str, str] = field(default_factory=_empty_mapping)
    cookies: Mapping[str, str] = field(default_factory=_empty_mapping)
    robots: bool | None = None
    nofollow: bool = True
    private: bool | None = None
    """Whether the host may be at a guarded address, such as one of the local network."""
    throttle: Literal["auto", "off"] | None = None
    blocked: tuple[BlockSign, ...] = ()
    """Signs of a refusal, besides the built-in ones."""
    challenges: bool = True
    """Whether the built-in signs of a refusal apply."""
    drop: tuple[str, ...] = ()
    """Query keys, with `*` and `?` as wildcards, that are removed from URLs that the crawl finds."""
    auth: HostAuth | None = None
    route: HostRoute | None = None
    """How requests travel; None: directly, by HTTP/1.1, with the certificates that the system trusts."""
    cookie_jar: CookieJarMode | None = None
    login: LoginRule | None = None
    place: SourcePosition = NO_POSITION

    @property
    def jar_mode(self) -> CookieJarMode:
        """Who keeps the cookies that the site sets."""
        return self.cookie_jar or ("perNode" if self.login is None else "shared")


class AppenderDef(Struct, frozen=True, kw_only=True):
    """One output for the rows of some dataDefs; an empty tuple: of all."""

    name: str
    type: str = "csv"
    data_defs: tuple[str, ...] = ()
    delimiter: str = ","
    escape_formulas: bool = False
    """Whether text that a spreadsheet would evaluate gets a leading `'` in CSV."""
    include_tags: bool = False
    """Of the type `scoopi`: whether page, index and item stand behind the group."""
    path: str | None = None
    kind: AppenderKind = "built-in"
    """What `type` names: a built-in type of files, a users' class that encodes files or that rows are delivered to, or
    a built-in way to send rows.
    """
    options: Mapping[str, Any] | None = None
    """Keyword arguments of the class; JSON values."""
    limit: float | None = None
    """Seconds for one batch; None: the setting `parse_limit`, of a sender `deadline`."""
    url: str = ""
    """Where `http` posts; may hold `%{env.NAME}`."""
    headers: Mapping[str, str] = field(default_factory=_empty_mapping)
    run: tuple[str, ...] = ()
    """The program of `command`, and its arguments."""
    batch: int | None = None
    """The most changes that a sender sends at once; None: 100."""
    suffix: str = ""
    """Of the files of a users' encoder."""
    code: str = ""
    """A hash of the code of the class."""
    place: SourcePosition = NO_POSITION


class Expectation(Struct, frozen=True, kw_only=True):
    """What the user expects of the records of a dataDef in a run. Shares are 0 to 1."""

    name: str
    """Of the dataDef."""
    rows: int | None = None
    """At least."""
    rejected: float | None = None
    """The share of its records at most."""
    filled: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By field, the share of its records in which it is filled, at least."""
    place: SourcePosition = NO_POSITION


class Definitions(Struct, frozen=True, kw_only=True, dict=True):
    """One accepted set of defs."""

    locator_groups: tuple[LocatorGroup, ...] = ()
    task_groups: tuple[TaskGroup, ...] = ()
    data_defs: tuple[DataDef, ...] = ()
    hosts: tuple[HostRule, ...] = ()
    appenders: tuple[AppenderDef, ...] = (AppenderDef(name="rows"),)
    expectations: tuple[Expectation, ...] = ()
    """Beside the dataDefs: a change of them makes no stored page stale."""
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

    def host_rule(self, host: str, port: int | None) -> HostRule | None:
        """The rule for a host: a rule with the port takes precedence over one without."""
        rules = self._by_name("hosts")
        rule: HostRule | None = rules.get(f"{host}:{port}") or rules.get(host)
        return rule

    def allows_private(self, host: str, port: int) -> bool:
        """Whether a host may be at a guarded address: by its rule with the port, else by the one without."""
        rules = self._by_name("hosts")
        for name in (f"{host}:{port}", host):
            rule: HostRule | None = rules.get(name)
            if rule is not None and rule.private is not None:
                return rule.private
        return False

    def has_host_rule(self, host: str) -> bool:
        """Whether a rule names the host, with whatever port."""
        return any(rule.name == host or rule.name.startswith(f"{host}:") for rule in self.hosts)

    def appenders_of(self, data_def: str) -> tuple[AppenderDef, ...]:
        """The outputs that rows of a dataDef go to."""
        return tuple(a for a in self.appenders if not a.data_defs or data_def in a.data_defs)

    @cached_property
    def _index(self) -> dict[str, dict[str, Any]]:
        return {}

    def _by_name(self, attribute: str) -> dict[str, Any]:
        if attribute not in self._index:
            self._index[attribute] = {item.name: item for item in getattr(self, attribute)}
        return self._index[attribute]

    def to_json(self) -> str:
        """The stored form; `from_json` reads it back."""
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
