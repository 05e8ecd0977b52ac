"""Loads defs: files → YAML trees → written forms → `Definitions`. Reports all problems at once."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.defs.arguments import resolve_arguments
from crawl_engine.defs.builders import axes, plugin_files, step_plugins
from crawl_engine.defs.builders.chains import compile_chains
from crawl_engine.defs.builders.definitions import Sources, build_definitions
from crawl_engine.defs.builders.steps import DEFAULT_TABLE_STEPS, default_flavour
from crawl_engine.defs.checks import (
    appenders,
    browser,
    conflicts,
    converters,
    groups,
    host_names,
    imports,
    links,
    names,
    references,
    secrets,
    seeds,
    series,
    shapes,
    signing,
    transport,
)
from crawl_engine.defs.language.keys import SECTIONS, is_table
from crawl_engine.defs.language.unknown_keys import describe_unknown
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.url_list import shown_path
from crawl_engine.defs.yaml import sources, tree
from crawl_engine.defs.yaml.node import Entry, YamlNode
from crawl_engine.defs.yaml.redaction import shown_host
from crawl_engine.errors import DefsError, Problem
from crawl_engine.model.definition import Definitions
from crawl_engine.model.locator import Locator
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.plugins.catalog import build_catalog

_SCALAR_KEYS = frozenset({"baseUrl"})


class LoadedDefs(Struct, frozen=True, kw_only=True):
    """Valid defs and their warnings."""

    definitions: Definitions
    root: YamlNode
    """As they are written, merged over all files."""
    warnings: tuple[Problem, ...] = ()
    arguments: frozenset[str] = frozenset()
    """The names of the arguments that they use."""


def load(
    path: Path, default_steps: str = DEFAULT_TABLE_STEPS, *, keep_documents: bool = True,
    arguments: Mapping[str, str] = MappingProxyType({}),
) -> LoadedDefs:  # fmt: skip
    """The defs in a directory tree or file. Raises only DefsError, with all problems.

    `default_steps`: the setting, which names the step set of tables whose tasks have no `steps`.
    `keep_documents`: the setting `documents`, for groups that do not say. `arguments`: the values of `-a` by name.
    """
    problems = Problems()
    def_files = sources.read(path, problems)
    files = tuple(source.display_path for source in def_files)
    unreadable = problems.has_errors
    catalog = build_catalog(plugin_files.read(path, problems))
    plugin_files.check(catalog.files, path, problems)
    roots = [tree.parse(source.text, source.display_path, problems) for source in def_files]
    used: set[str] = set()
    for root, source in zip(roots, def_files, strict=True):
        if root is not None:
            used |= resolve_arguments(root, arguments, problems)
            secrets.resolve_files(root, source.path)
            unreadable |= shapes.mend(root, problems)
    incomplete = unreadable or any(
        root is None and _has_text(source.text) for root, source in zip(roots, def_files, strict=True)
    )
    root = _merge([root for root in roots if root is not None], sources.root_place(path), problems)
    names.check(root, problems)
    table_names = {name for name, entry in root.entries_of("dataDefs") if is_table(entry.node)}
    chains = compile_chains(root, catalog, problems, table_names, default_steps)
    tables = axes.read(root, chains, problems, default_flavour(default_steps))
    added = step_plugins.read_outputs(root, chains, problems)
    groups.check(root, chains, problems)
    browser.check(root, chains, problems)
    converters.check(root, catalog, problems)
    conflicts.check(root, problems, keep_documents=keep_documents)
    paths = {source.display_path: source.path for source in def_files}
    host_names.check(root, problems)
    transport.check(root, paths, catalog, problems)
    signing.check(root, problems)
    links.check(root, problems)
    series.check(root, problems)
    appenders.check(root, catalog, problems)
    if not incomplete:
        # A broken file may define names that others use: do not report those as unknown.
        references.check(root, problems, default_steps)
    built_from = Sources(
        files=files, paths=paths, chains=chains, catalog=catalog, tables=tables, step_outputs=added,
        keep_documents=keep_documents,
    )  # fmt: skip
    definitions = build_definitions(root, built_from, problems)
    if definitions is not None:
        appenders.check_columns(root, definitions, problems)
    if definitions is None or problems.has_errors:
        raise DefsError(problems.in_file_order(files))
    seeds.check(root, definitions, problems)
    if problems.has_errors:
        raise DefsError(problems.in_file_order(files))
    secrets.warn_of_literals(root, problems)
    for group in definitions.locator_groups:
        for locator in group.locators:
            _check_seed_file(locator, problems)
    return LoadedDefs(
        definitions=definitions, root=root, warnings=tuple(problems.in_file_order(files)), arguments=frozenset(used)
    )


def load_to_run(
    path: Path, default_steps: str = DEFAULT_TABLE_STEPS, *, keep_documents: bool = True,
    arguments: Mapping[str, str] = MappingProxyType({}),
) -> LoadedDefs:  # fmt: skip
    """As `load`; the plugin classes are imported, too, in a process of their own."""
    loaded = load(path, default_steps, keep_documents=keep_documents, arguments=arguments)
    problems = Problems()
    imports.check(loaded.root, loaded.definitions, path, problems)
    found = [*loaded.warnings, *problems.in_file_order(loaded.definitions.files)]
    if problems.has_errors:
        raise DefsError(found)
    return replace(loaded, warnings=tuple(found))


def find_relative_urls(definitions: Definitions) -> Iterator[tuple[SourcePosition, str]]:
    """Relative URLs of locators when the defs set no `baseUrl`, each with the locator's place, without credentials."""
    for place, url in _iter_urls(definitions) if definitions.base_url is None else ():
        if not urls.is_http_url(url) and not urls.is_file_url(url) and not url.lstrip().startswith("%{seed."):
            yield place, urls.without_credentials(url)


def find_file_urls(definitions: Definitions, base_url: str | None) -> Iterator[tuple[SourcePosition, str]]:
    """URLs of files without credentials, each with its locator's place. `base_url` replaces the defs' base URL."""
    base = base_url or definitions.base_url
    for place, url in _iter_urls(definitions):
        if urls.is_file_url(url) or (base and urls.is_file_url(base) and not urls.is_http_url(url)):
            yield place, urls.without_credentials(url)


def _iter_urls(definitions: Definitions) -> Iterator[tuple[SourcePosition, str]]:
    for group in definitions.locator_groups:
        for locator in group.locators:
            for url in (*locator.urls, *([locator.sitemap] if locator.sitemap else [])):
                yield locator.place, url


def _check_seed_file(locator: Locator, problems: Problems) -> None:
    """A missing seed file is a warning: it is read when a run starts."""
    path = locator.from_file
    if path is not None and path != "-" and not Path(path).is_file():
        message = f"the file '{shown_path(path)}' does not exist yet; it is read when a run starts"
        problems.warn(locator.place, "missing-file", message)


def _has_text(text: str) -> bool:
    """Whether a file contains more than comments and blank lines."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def _merge(roots: list[YamlNode], place: SourcePosition, problems: Problems) -> YamlNode:
    """The merged mapping of sections. The last file that defines a name wins. `place` is the mapping's own."""
    merged = YamlNode("mapping", place)
    for root in roots:
        if root.is_null:
            continue
        if root.kind != "mapping":
            message = f"a def file must be a mapping of {', '.join(SECTIONS)}, not {root.describe()}"
            problems.add(root.place, "wrong-type", message)
            continue
        for key, entry in root.entries.items():
            if key not in SECTIONS:
                problems.add(entry.place, "unknown-key", describe_unknown(key, SECTIONS))
            elif key in _SCALAR_KEYS:
                _replace_entry(merged, key, entry, problems)
            else:
                section = merged.entries.setdefault(key, Entry(entry.place, YamlNode("mapping", entry.node.place)))
                for name, part in entry.node.entries.items():
                    _replace_entry(section.node, name, part, problems, is_host=key == "hosts")
    return merged


def _replace_entry(into: YamlNode, name: str, entry: Entry, problems: Problems, *, is_host: bool = False) -> None:
    previous = into.entries.pop(name, None)
    if previous is not None:
        problems.warn(
            entry.place,
            "replaced",
            f"'{shown_host(name) if is_host else name}' replaces the definition at {previous.place}",
        )
    into.entries[name] = entry
