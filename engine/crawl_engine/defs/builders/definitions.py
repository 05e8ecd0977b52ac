"""Builds `Definitions` from the valid defs."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from crawl_engine.defs.builders import axes
from crawl_engine.defs.builders.bodies import encode_body
from crawl_engine.defs.builders.chains import Chains, stored_chain
from crawl_engine.defs.language.keys import (
    WrittenAuth,
    WrittenDataDef,
    WrittenDefs,
    WrittenField,
    WrittenLocator,
    WrittenNext,
    WrittenRequest,
    WrittenTask,
    innermost_query,
)
from crawl_engine.defs.language.reader import Builder, DefPart, Reader
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.defs.yaml.sources import resolve_beside
from crawl_engine.host_rules import is_pattern, split_port
from crawl_engine.late_regex import late_regex
from crawl_engine.model.axis import AxisTable
from crawl_engine.model.declaration import TypeHint
from crawl_engine.model.definition import DataDef, Definitions, Expectation, Field, Task, TaskGroup
from crawl_engine.model.field_type import FIELD_TYPES, find_field_type
from crawl_engine.model.file import add_rendered_fields
from crawl_engine.model.host import AuthKind, HostAuth, HostRoute, HostRule, LoginRule, TlsRule
from crawl_engine.model.link import Link, NextPage, RequestTemplate, TextSource
from crawl_engine.model.locator import Locator, LocatorGroup, SitemapRules
from crawl_engine.model.output_type import OUTPUT_TYPES, SENDER_TYPES, AppenderDef, AppenderKind, default_delimiter
from crawl_engine.model.step import is_plugin_path
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.plugins.catalog import Catalog
from crawl_engine.plugins.plugin_class import ClassKind
from crawl_engine.urls import bare_host, host_of, normalize

_PORTS = 65_536
_PATTERN = late_regex(r"[a-z0-9_.-]*\*[a-z0-9_.-]*")

APPENDER_CLASSES: tuple[ClassKind, ...] = ("encoder", "appender")
"""What the class of an appender may be."""
DEFAULT_SUFFIX = "out"
"""Of the files of a plugin encoder without `suffix`."""


class Sources(Struct, frozen=True, kw_only=True):
    """What the defs are built from besides their text."""

    files: tuple[str, ...]
    paths: Mapping[str, Path]
    """Of the files by their display paths."""
    chains: Chains
    catalog: Catalog
    tables: Mapping[str, AxisTable]
    """Of the dataDefs in axis mode, by name."""
    step_outputs: tuple[AppenderDef, ...]
    """The appenders that steps add."""
    keep_documents: bool
    """Of the groups that do not say."""


def build_definitions(root: YamlNode, sources: Sources, problems: Problems) -> Definitions | None:
    """The defs as the engine uses them; None if they have problems.

    Parts are sorted by name, so moving a part to another file changes nothing.
    """
    builder = _Builder(sources)
    definitions = Reader(problems, builder.by_struct()).read(TypeHint(Definitions), DefPart((), root, root.place))
    return definitions if isinstance(definitions, Definitions) else None


class _Builder(Struct):
    sources: Sources
    expectations: list[Expectation] = field(default_factory=list)

    def by_struct(self) -> Mapping[type, Builder]:
        """What builds each struct that is more than its keys."""
        return {
            Definitions: self._definitions,
            LocatorGroup: _locator_group,
            Locator: self._locator,
            SitemapRules: _none_if_default,
            TextSource: _none_if_default,
            TaskGroup: self._task_group,
            Task: self._task,
            DataDef: self._data_def,
            Field: _field,
            RequestTemplate: _request,
            NextPage: _next_page,
            HostRule: _host,
            HostAuth: _auth,
            HostRoute: _none_if_default,
            TlsRule: self._tls,
            LoginRule: lambda rule, _part: replace(rule, url=rule.url.strip()),
            AppenderDef: self._appender,
        }

    def _definitions(self, written: WrittenDefs, _part: DefPart) -> Definitions:
        return Definitions(
            locator_groups=_by_name(written.locator_groups),
            task_groups=_by_name(written.task_groups),
            data_defs=add_rendered_fields(_by_name(written.data_defs), written.task_groups),
            expectations=_by_name(self.expectations),
            hosts=tuple(replace(host, name=canonical_host(host.name) or host.name) for host in _by_name(written.hosts)),
            appenders=(_by_name(written.appenders) or (AppenderDef(name="rows"),)) + self.sources.step_outputs,
            plugins=self.sources.catalog.files,
            base_url=written.base_url,
            files=self.sources.files,
        )

    def _locator(self, written: WrittenLocator, part: DefPart) -> Locator:
        pieces, content_type = encode_body(written)
        file, seeds = self._file_of(part), written.from_
        return Locator(
            name=written.name or "",
            urls=((written.url,) if written.url else ()) + written.urls,
            from_file=None if seeds is None else seeds.file if seeds.file == "-" else resolve_beside(file, seeds.file),
            seed_columns=None if seeds is None else seeds.table,
            sitemap=written.sitemap.url if written.sitemap else None,
            sitemap_rules=written.sitemap.rules if written.sitemap else None,
            method=written.method or ("POST" if pieces else "GET"),
            headers=written.headers,
            cookies=written.cookies,
            body="".join(pieces) if pieces else None,
            body_pieces=pieces if len(pieces) > 1 else (),
            content_type=content_type,
            until_empty=written.until is not None,
            cookie_scope=written.cookie_scope,
            place=part.place,
        )

    def _task_group(self, group: TaskGroup, part: DefPart) -> TaskGroup:
        return group if "documents" in part.node.entries else replace(group, documents=self.sources.keep_documents)

    def _task(self, written: WrittenTask, part: DefPart) -> Task:
        _, group, name = part.path
        whole_chain = self.sources.chains[str(group), str(name)]
        chain = stored_chain(whole_chain, is_table=written.data_def in self.sources.tables)
        catalog = self.sources.catalog
        return Task(
            name=part.name,
            data_def=written.data_def,
            steps=part.node.text_of("steps"),
            chain=chain,
            code=catalog.code_hash(
                [step.class_name for step in chain if step.kind in ("parser", "step")],
                self._files_run(argument for step in chain for argument in step.run),
            ),
            loader_code=catalog.code_hash(step.class_name for step in chain if step.kind == "loader"),
            place=part.place,
        )

    def _files_run(self, arguments: Iterator[str]) -> list[str]:
        """The files of the plugins, if arguments name one of them: the program may read any of them."""
        return [file.path for file in self.sources.catalog.files] if any(map(is_plugin_path, arguments)) else []

    def _data_def(self, written: WrittenDataDef, part: DefPart) -> DataDef:
        if written.expect is not None:
            self.expectations.append(replace(written.expect, name=part.name))
        table = self.sources.tables.get(part.name)
        if table is None:
            return DataDef(
                name=part.name,
                sources=written.query.sources,
                block=written.query.innermost.blocks,
                header_line=written.query.innermost.header_line,
                fields=written.fields,
                filters=written.filters,
                links=written.links,
                next=written.next,
                key=written.key,
                unique=written.unique,
                code=self.sources.catalog.code_hash(_converters(written.fields), packages=_packages(written.fields)),
                place=part.place,
                block_place=_place_of_records(part),
            )
        return DataDef(
            name=part.name,
            fields=tuple(Field(name=column, place=part.place) for column in axes.columns(table)),
            links=tuple(  # they say which groups its items lead to; the table itself finds them
                Link(selector=item.selector or "", group=item.link_group, place=item.place)
                for item in table.items
                if table.makes_links and item.link_group is not None
            ),
            key=written.key,
            unique=written.unique,
            axis=table,
            place=part.place,
        )

    def _tls(self, rule: TlsRule, part: DefPart) -> TlsRule | None:
        file = self._file_of(part)
        ca, client = (path and resolve_beside(file, path) for path in (rule.ca, rule.client))
        return None if rule == TlsRule() else replace(rule, ca=ca, client=client)

    def _appender(self, appender: AppenderDef, part: DefPart) -> AppenderDef:
        catalog = self.sources.catalog
        kind = kind_of(appender.type, catalog)
        has_delimiter = "delimiter" in part.node.entries
        return replace(
            appender,
            kind=kind,
            options=appender.options or None,
            suffix=suffix_of(appender.type, catalog) if kind == "encoder" else "",
            code=self._appender_code(appender, kind),
            delimiter=appender.delimiter if has_delimiter else default_delimiter(appender.type),
        )

    def _appender_code(self, appender: AppenderDef, kind: AppenderKind) -> str:
        classes = [appender.type] if kind in ("encoder", "appender") else []
        return self.sources.catalog.code_hash(classes, [] if classes else self._files_run(iter(appender.run)))

    def _file_of(self, part: DefPart) -> Path:
        """The file in which a part is written."""
        return self.sources.paths[part.place.file]


def _by_name(parts: Any) -> tuple[Any, ...]:
    return tuple(sorted(parts, key=lambda part: part.name))


def _none_if_default(rules: Any, _part: DefPart) -> Any:
    return None if rules == type(rules)() else rules


def _locator_group(group: LocatorGroup, _part: DefPart) -> LocatorGroup:
    locators = (replace(locator, name=locator.name or group.name) for locator in group.locators)
    return replace(group, locators=tuple(locators))


def _field(written: WrittenField, part: DefPart) -> Field:
    selected = part.node.entries.get("selector") or part.node.entries.get("column")
    field = replace(written.to_field(), selector_place=part.place if selected is None else selected.node.place)
    entry = part.node.entries.get("default")
    if entry is None:
        return field
    keeps_written = find_field_type(field.type).keeps_written
    default = _default_as_written(entry.node, field.default) if keeps_written else field.default
    return replace(field, has_default=True, default=default)


def _default_as_written(node: YamlNode, default: Any) -> Any:
    """A default of a text. In a list, a number that reads back as written stays one: stored defs are equal."""
    if node.kind != "list":
        return _as_written(node, default)
    pairs = [(_as_written(item, value), value) for item, value in zip(node.items, default, strict=True)]
    return [value if text == str(value) else text for text, value in pairs]


def _as_written(node: YamlNode, value: Any) -> Any:
    """A number with its digits and its sign as they are written; any other value as it is."""
    return getattr(node.value(), "written", value)


def _place_of_records(part: DefPart) -> SourcePosition:
    """Where the selector of the records of a dataDef is written."""
    query = innermost_query(part.node)
    entries = {} if query is None else query.entries
    selected = next((entries[key] for key in ("block", "table", "from") if key in entries), None)
    return part.place if selected is None else selected.node.place


def _converters(fields: tuple[Field, ...]) -> Iterator[str]:
    for part in fields:
        yield from part.convert
        yield from _converters(part.fields)


def _packages(fields: tuple[Field, ...]) -> Iterator[str]:
    """The packages that add the types of fields, each with the name of the type and its version."""
    for part in fields:
        if origin := FIELD_TYPES.origin_of(part.type):
            yield f"{part.type} {origin}"
        yield from _packages(part.fields)


def _request(written: WrittenRequest, _part: DefPart) -> RequestTemplate | None:
    """What is sent besides a GET of an element's URL; None: nothing."""
    if written == WrittenRequest():
        return None
    return RequestTemplate(
        url=written.url,
        method=written.method,
        form=tuple((name, value) for name, values in (written.form or {}).items() for value in values),
        has_form=written.form is not None,
        json=None if written.json is UNSET else json.dumps(written.json, ensure_ascii=False, separators=(",", ":")),
        numbers=written.numbers,
        headers=tuple(written.headers.items()),
    )


def _next_page(written: WrittenNext, part: DefPart) -> NextPage:
    return NextPage(
        request=written.request or RequestTemplate(),
        variables=tuple(written.variables.items()),
        header="" if written.header is None else written.header.lower(),
        until_empty=written.until is not None or any(text.isdecimal() for text in written.variables.values()),
        place=part.node.place,
    )


def _host(rule: HostRule, part: DefPart) -> HostRule:
    return replace(rule, challenges=part.node.text_of("blocked") != "false")


def _auth(written: WrittenAuth, _part: DefPart) -> HostAuth | None:
    texts: dict[AuthKind, str | None] = {"basic": written.basic, "bearer": written.bearer, "digest": written.digest}
    return next((HostAuth(kind, text) for kind, text in texts.items() if text is not None), None)


def canonical_host(name: str) -> str | None:
    """A host name in the form it has in URLs, with the port if one is given; None if invalid. So for a pattern."""
    if is_pattern(name):
        return _canonical_pattern(name)
    match = re.fullmatch(r"(\[[^\]]*\]|[^:/?#@\\\s*%\[\]]+)(?::([0-9]{1,5}))?", name)
    url = normalize(f"http://{match.group(1)}/") if match else None
    if match is None or url is None or url.count("/") != 3:
        return None
    port = match.group(2)
    if port is not None and not 0 < int(port) < _PORTS:
        return None
    host = bare_host(host_of(url))
    return host if port is None else f"{host}:{int(port)}"


def _canonical_pattern(name: str) -> str | None:
    """A pattern with one `*`; a part between dots that is not ASCII has none."""
    pattern, port = split_port(name)
    labels = pattern.lower().split(".")
    canonical = [canonical_host(label) if label and not label.isascii() else label for label in labels]
    host = ".".join([label or "" for label in canonical]).rstrip(".")
    if None in canonical or not _PATTERN.fullmatch(host):
        return None
    return host if not port else f"{host}:{int(port)}" if 0 < int(port) < _PORTS else None


def kind_of(type_: str, catalog: Catalog) -> AppenderKind:
    """What a checked type is."""
    if type_ in SENDER_TYPES:
        return "sender"
    plugin_class = None if type_ in OUTPUT_TYPES else catalog.find(type_)
    if plugin_class is None:
        return "built-in"
    return cast(AppenderKind, next(kind for kind in APPENDER_CLASSES if kind in plugin_class.kinds))


def suffix_of(type_: str, catalog: Catalog) -> str:
    """The suffix of the files of a plugin encoder, without the dot."""
    plugin_class = catalog.find(type_)
    scanned = plugin_class.scanned if plugin_class is not None else None
    suffix = scanned.texts.get("suffix", "").removeprefix(".") if scanned is not None else ""
    return suffix or DEFAULT_SUFFIX
