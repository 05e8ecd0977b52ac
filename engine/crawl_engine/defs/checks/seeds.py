"""Checks the CSV files of seeds, and that `%{seed.NAME}` and `%{sitemap.NAME}` can have values."""

import os
from collections.abc import Iterator

from crawl_engine.defs.problems import Problems
from crawl_engine.defs.seed_table import read_header
from crawl_engine.defs.url_list import shown_path
from crawl_engine.defs.yaml.node import YamlNode, iter_scalars
from crawl_engine.errors import UsageError, suggest
from crawl_engine.model.definition import Definitions
from crawl_engine.model.locator import Locator
from crawl_engine.model.output_type import can_delimit
from crawl_engine.model.variables import SEED, SITEMAP, variable_names

_REQUEST_KEYS = ("url", "urls", "headers", "cookies", "body", "form", "json")


def check(root: YamlNode, definitions: Definitions, problems: Problems) -> None:
    """Check the variables of seeds, and the files that are there: others are read when a run starts."""
    columns: set[str] = set()
    is_known = True
    by_place = {locator.place: locator for group in definitions.locator_groups for locator in group.locators}
    for locator in by_place.values():
        header = _read_header(locator, problems)
        is_known = is_known and header is not None
        columns.update(header or ())
    for _, group in root.entries_of("locatorGroups"):
        for node in group.node.list_of("locators"):
            _check_locator(node, by_place[node.place], problems)
    has_sitemap = any(locator.sitemap is not None for locator in by_place.values())
    has_table = any(locator.seed_columns is not None for locator in by_place.values())
    for keys, node in iter_scalars(root):
        if f"%{{{SITEMAP}" in node.text and keys[:1] == ("dataDefs",) and not has_sitemap:
            message = f"`%{{{SITEMAP}NAME}}` is what a sitemap says of a page, and no locator has a `sitemap`"
            problems.add(node.place, "unknown-variable", message)
        for name in _seed_names(node) if keys[:1] != ("locatorGroups",) else ():
            if keys[:1] != ("dataDefs",):
                message = f"`%{{{SEED}{name}}}` is available only in locators, fields and links"
                problems.add(node.place, "unknown-variable", message)
            elif not has_table:
                problems.add(node.place, "unknown-variable", _no_table(name))
            elif is_known and name not in columns:
                message = f"no CSV file of seeds has the column '{name}'{suggest(name, sorted(columns))}"
                problems.add(node.place, "unknown-variable", message)


def _check_locator(node: YamlNode, locator: Locator, problems: Problems) -> None:
    table = locator.seed_columns
    header = None if table is None else _read_header(locator, Problems())
    for key in _REQUEST_KEYS:
        entry = node.entries.get(key)
        for _, scalar in iter_scalars(entry.node) if entry is not None else ():
            for name in _seed_names(scalar):
                if table is None:
                    problems.add(scalar.place, "unknown-variable", _no_table(name))
                elif header and name not in header:
                    message = (
                        f"{shown_path(str(locator.from_file))} has no column '{name}'{suggest(name, list(header))}"
                    )
                    problems.add(scalar.place, "unknown-variable", message)
    if table is None:
        return
    place = node.key_place("from")
    if locator.from_file == "-":
        problems.add(place, "conflict", "a CSV file of seeds cannot be stdin; write it to a file")
    if "sitemap" in node.entries:
        problems.add(place, "conflict", "a CSV file of seeds cannot stand beside `sitemap`; write two locators")
    if not can_delimit(table.delimiter):
        problems.add(place, "bad-delimiter", "`delimiter` must be one character, such as `;`, and no quote")
    wanted = [*table.columns, *(() if locator.urls else (table.url,))]
    for name in wanted if header else ():
        if name not in (header or ()):
            message = f"{shown_path(str(locator.from_file))} has no column '{name}'{suggest(name, list(header or ()))}"
            hint = (
                "" if name in table.columns else "; name it with `url:` in `from`, or write `url` with `%{seed.NAME}`"
            )
            problems.add(place, "unknown-column", message + hint)


def _read_header(locator: Locator, problems: Problems) -> tuple[str, ...] | None:
    """The columns of a locator, empty without a CSV file; None if its file cannot be read now."""
    table, path = locator.seed_columns, locator.from_file
    if table is None or path is None or len(table.delimiter) != 1:
        return ()
    if not os.path.isfile(path):  # noqa: PTH113
        return None
    try:
        return tuple(name for name in read_header(path, table) if name)
    except UsageError as error:
        problems.add(locator.place, "bad-seeds", f"{error.message}: {error.remedy}")
    except OSError:
        pass  # it is tried again when a run starts
    return None


def _seed_names(node: YamlNode) -> Iterator[str]:
    if "%{seed." in node.text:
        yield from (name.removeprefix(SEED) for name in variable_names(node.text) if name.startswith(SEED))


def _no_table(name: str) -> str:
    return f"`%{{{SEED}{name}}}` needs a CSV file of seeds: write `from: {{file: seeds.csv}}`"
