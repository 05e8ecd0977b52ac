"""Builds `Definitions` from validated terms."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from engine.defs import axes
from engine.defs.appenders import kind_of, suffix_of
from engine.defs.bodies import encode_body
from engine.defs.build_host import build_host
from engine.defs.build_links import build_link, build_next
from engine.defs.chains import Chains, stored_chain
from engine.defs.language import (
    AppenderTerm,
    DataDefTerm,
    Defs,
    FieldTerm,
    HostTerm,
    LocatorGroupTerm,
    LocatorTerm,
    SitemapTerm,
)
from engine.defs.problems import Problems
from engine.defs.sources import resolve_beside
from engine.defs.steps import read_limit, read_options
from engine.defs.task_terms import RecrawlTerm, TaskGroupTerm, TaskTerm
from engine.defs.yaml_node import Entry, YamlNode, plain_data
from engine.model.axis import AxisTable
from engine.model.definition import (
    AppenderDef,
    AppenderKind,
    DataDef,
    Definitions,
    Expectation,
    Field,
    FieldType,
    FilterRule,
    HostRule,
    Locator,
    LocatorGroup,
    Task,
    TaskGroup,
)
from engine.model.link import Link
from engine.model.locator import Recrawl, SitemapLink, SitemapRules
from engine.model.output_type import default_delimiter
from engine.model.step import ChainStep, is_plugin_path
from engine.plugins.catalog import Catalog

_T = TypeVar("_T")
_M = TypeVar("_M")

_TEXT_TYPES = frozenset({"str", "decimal", "date", "url", "price", "file"})
"""Types whose default keeps its digits as written: `0.10` is not `0.1`."""


def build_definitions(
    terms: Defs, root: YamlNode, files: tuple[str, ...], paths: Mapping[str, Path], chains: Chains, catalog: Catalog,
    tables: Mapping[str, AxisTable], step_outputs: tuple[AppenderDef, ...], *,
    keep_documents: bool,
) -> Definitions:  # fmt: skip
    """The defs as the engine uses them. `paths` maps display paths to files; `root` holds the source positions.

    `tables`: of the dataDefs in axis mode, by name. `step_outputs`: the appenders that steps add.
    `keep_documents`: of the groups that do not say.

    Parts are sorted by name, so moving a part to another file changes nothing.
    """

    def parts(
        section: str, terms_by_name: dict[str, _T] | None, build: Callable[[str, _T, Entry], _M]
    ) -> tuple[_M, ...]:
        entries = dict(root.entries_of(section))
        return tuple(build(name, term, entries[name]) for name, term in sorted((terms_by_name or {}).items()))

    def group(name: str, term: LocatorGroupTerm, entry: Entry) -> LocatorGroup:
        return _locator_group(name, term, entry, paths)

    def task_group(name: str, term: TaskGroupTerm, entry: Entry) -> TaskGroup:
        stored = {
            key: stored_chain(chains[name, key], is_table=task.data_def in tables) for key, task in term.tasks.items()
        }
        return _task_group(name, term, entry, stored, catalog, keep_documents=keep_documents)

    def data_def(name: str, term: DataDefTerm, entry: Entry) -> DataDef:
        return _table(name, term, tables[name], entry) if name in tables else _data_def(name, term, entry, catalog)

    def host(name: str, term: HostTerm, entry: Entry) -> HostRule:
        return build_host(name, term, entry, paths)

    def appender(name: str, term: AppenderTerm, entry: Entry) -> AppenderDef:
        return _appender(name, term, entry, catalog)

    return Definitions(
        locator_groups=parts("locatorGroups", terms.locator_groups, group),
        task_groups=parts("taskGroups", terms.task_groups, task_group),
        data_defs=parts("dataDefs", terms.data_defs, data_def),
        expectations=tuple(e for e in parts("dataDefs", terms.data_defs, _expectation) if e is not None),
        hosts=parts("hosts", terms.hosts, host),
        appenders=(parts("appenders", terms.appenders, appender) or (AppenderDef(name="rows"),)) + step_outputs,
        plugins=catalog.files,
        base_url=terms.base_url,
        files=files,
    )


def _locator_group(name: str, term: LocatorGroupTerm, entry: Entry, paths: Mapping[str, Path]) -> LocatorGroup:
    nodes = entry.node.list_of("locators")
    locators = (_locator(name, part, node, paths) for part, node in zip(term.locators, nodes, strict=True))
    return LocatorGroup(name=name, locators=tuple(locators), place=entry.place)


def _locator(group: str, term: LocatorTerm, node: YamlNode, paths: Mapping[str, Path]) -> Locator:
    pieces, content_type = encode_body(term)
    return Locator(
        name=term.name or group,
        urls=((term.url,) if term.url else ()) + tuple(term.urls or ()),
        from_file=_url_file(term.from_, paths[node.place.file]) if term.from_ else None,
        sitemap=term.sitemap.url if term.sitemap else None,
        sitemap_rules=_sitemap_rules(term.sitemap) if term.sitemap else None,
        method=_or_default(term.method, "POST" if pieces else "GET"),
        headers=_freeze(term.headers),
        cookies=_freeze(term.cookies),
        body="".join(pieces) if pieces else None,
        body_pieces=pieces if len(pieces) > 1 else (),
        content_type=content_type,
        until_empty=term.until is not None,
        place=node.place,
    )


def _url_file(name: str, file: Path) -> str:
    """Where a file of URLs is that `file` names; `-` is standard input."""
    return name if name == "-" else resolve_beside(file, name)


def _sitemap_rules(term: SitemapTerm) -> SitemapRules | None:
    links = tuple(
        SitemapLink(
            allow=tuple(link.allow or ()), deny=tuple(link.deny or ()), group=link.link_group, priority=link.priority
        )
        for link in term.links or ()
    )  # fmt: skip
    rules = SitemapRules(allow=tuple(term.allow or ()), deny=tuple(term.deny or ()), links=links, since=term.since)
    return None if rules == SitemapRules() else rules


def _task_group(
    name: str, term: TaskGroupTerm, entry: Entry, chains: Mapping[str, tuple[ChainStep, ...]], catalog: Catalog, *,
    keep_documents: bool,
) -> TaskGroup:  # fmt: skip
    return TaskGroup(
        name=name,
        tasks=tuple(
            _task(key, task, entry.node.entries[key], chains[key], catalog) for key, task in term.tasks.items()
        ),
        live=_or_default(term.live, None),
        max_depth=term.max_depth,
        max_pages=term.max_pages,
        priority=_or_default(term.priority, 0),
        documents=_or_default(term.documents, keep_documents),
        canonical=_or_default(term.canonical, False),
        revalidate=_or_default(term.revalidate, False),
        recrawl=_recrawl(term.recrawl) if term.recrawl else None,
        place=entry.place,
    )


def _recrawl(term: RecrawlTerm) -> Recrawl:
    default = Recrawl()
    return Recrawl(
        min=_or_default(term.min, default.min),
        max=_or_default(term.max, default.max),
        adapt=_or_default(term.adapt, default.adapt),
    )


def _task(name: str, term: TaskTerm, entry: Entry, chain: tuple[ChainStep, ...], catalog: Catalog) -> Task:
    classes = [step.class_name for step in chain if step.kind in ("parser", "step")]
    names_file = any(is_plugin_path(argument) for step in chain for argument in step.run)
    files = [file.path for file in catalog.files] if names_file else []  # the program may read any of them
    return Task(
        name=name,
        data_def=term.data_def,
        steps=entry.node.text_of("steps"),
        chain=chain,
        code=catalog.code_hash(classes, files),
        loader_code=catalog.code_hash(step.class_name for step in chain if step.kind == "loader"),
        place=entry.place,
    )


def _data_def(name: str, term: DataDefTerm, entry: Entry, catalog: Catalog) -> DataDef:
    node = entry.node
    fields = _fields(term.fields, node)
    filters = zip(term.filters or [], node.list_of("filters"), strict=True)
    links = zip(term.links or [], node.list_of("links"), strict=True)
    return DataDef(
        name=name,
        block=getattr(term.query, "block", None),
        fields=fields,
        filters=tuple(FilterRule(field=part.field, pattern=part.pattern, place=at.place) for part, at in filters),
        links=tuple(build_link(part, at) for part, at in links),
        next=build_next(term.next, dict(node.entries)["next"].node) if term.next is not None else None,
        key=tuple(term.key or ()),
        code=catalog.code_hash(_converters(fields)),
        place=entry.place,
    )


def _table(name: str, term: DataDefTerm, table: AxisTable, entry: Entry) -> DataDef:
    return DataDef(
        name=name,
        fields=tuple(Field(name=column, place=entry.place) for column in axes.columns(table)),
        links=tuple(  # they say which groups its items lead to; the table itself finds them
            Link(selector=item.selector or "", group=item.link_group, place=item.place)
            for item in table.items
            if table.makes_links and item.link_group is not None
        ),
        key=tuple(term.key or ()),
        axis=table,
        place=entry.place,
    )


def _converters(fields: tuple[Field, ...]) -> Iterator[str]:
    for field in fields:
        yield from field.convert
        yield from _converters(field.fields)


def _expectation(name: str, term: DataDefTerm, entry: Entry) -> Expectation | None:
    expect: Any = getattr(term, "expect", None)  # its percentages are validated, and shares from then on
    if expect is None:
        return None
    place = dict(entry.node.entries)["expect"].place
    filled = MappingProxyType(dict(expect.filled or {}))
    return Expectation(name=name, rows=expect.rows, rejected=expect.rejected, filled=filled, place=place)


def _fields(terms: dict[str, FieldTerm] | None, node: YamlNode) -> tuple[Field, ...]:
    entries = dict(node.entries_of("fields"))
    return tuple(_field(name, term, entries[name]) for name, term in (terms or {}).items())


def _field(name: str, term: FieldTerm, entry: Entry) -> Field:
    kind: FieldType = _or_default(term.type, "str")
    written = getattr(term.default, "written", None)
    return Field(
        name=name,
        selector=term.selector,
        attribute=_or_default(term.attribute, "text"),
        all=_or_default(term.all, False),
        join=_or_default(term.join, "|"),
        match=term.match,
        type=kind,
        format=term.format,
        value=term.value,
        default=written if written is not None and kind in _TEXT_TYPES else plain_data(term.default),
        has_default="default" in term.model_fields_set,
        required=_or_default(term.required, False),
        fields=_fields(term.fields, entry.node),
        convert=tuple(term.convert or ()),
        from_step=_or_default(term.from_step, False),
        scope=term.scope,
        whitespace=term.whitespace,
        replace=tuple(term.replace or ()),
        split=term.split,
        decimal_mark=term.decimal_mark,
        group_mark=term.group_mark,
        locale=term.locale,
        place=entry.place,
    )


def _appender(name: str, term: AppenderTerm, entry: Entry, catalog: Catalog) -> AppenderDef:
    type_ = _or_default(term.type, "csv")
    kind = kind_of(type_, catalog)
    return AppenderDef(
        name=name,
        type=type_,
        kind=kind,
        options=read_options(entry.node, Problems()) or None,  # checked already
        limit=read_limit(entry.node, Problems()),
        suffix=suffix_of(type_, catalog) if kind == "encoder" else "",
        code=_appender_code(type_, kind, tuple(term.run or ()), catalog),
        url=term.url or "",
        headers=_freeze(term.headers),
        run=tuple(term.run or ()),
        batch=term.batch,
        data_defs=tuple(term.data_defs or ()),
        delimiter=_or_default(term.delimiter, default_delimiter(type_)),
        escape_formulas=_or_default(term.escape_formulas, False),
        path=term.path,
        place=entry.place,
    )


def _appender_code(type_: str, kind: AppenderKind, run: tuple[str, ...], catalog: Catalog) -> str:
    if kind in ("encoder", "appender"):
        return catalog.code_hash([type_])
    names_file = any(map(is_plugin_path, run))
    return catalog.code_hash((), [file.path for file in catalog.files] if names_file else ())


def _or_default(written: Any, default: _M) -> _M:
    """The written value, else the default: an omitted key is None whatever its declared type."""
    return default if written is None else written


def _freeze(texts: dict[str, str] | None) -> Mapping[str, str]:
    return MappingProxyType(dict(texts or {}))
