"""Converts a table whose items are links to `links`."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from engine import urls
from engine.defs.conversion.notes import NotConvertible
from engine.defs.conversion.records import Records
from engine.defs.conversion.selectors import MISSED_BLOCK, RecordSelector, fill, on_page, spread
from engine.defs.conversion.yaml_parts import Part
from engine.model.axis import ITEM, Axis, AxisTable
from engine.model.definition import Definitions, LocatorGroup
from engine.model.variables import variable_names

_UNKNOWN_SITE = "http://site.invalid/"
"""The base of relative URLs where the definitions name none: only their folders are compared."""
_ATTRIBUTE = "href"


class LinkOrigin(Struct, frozen=True, kw_only=True):
    """Where the pages with the links come from."""

    groups: frozenset[str]
    locators: tuple[LocatorGroup, ...]
    prefixes: frozenset[str]
    """Of the links of tables that lead into these groups."""
    has_other_links: bool
    """Whether links of records lead into them, too."""


def find_origin(data_def: str, definitions: Definitions) -> LinkOrigin:
    """The groups whose tasks use a dataDef, and what leads into them."""
    groups = frozenset(
        group.name for group in definitions.task_groups if any(task.data_def == data_def for task in group.tasks)
    )
    tables = [each.axis for each in definitions.data_defs if each.axis is not None and each.axis.makes_links]
    return LinkOrigin(
        groups=groups,
        locators=tuple(group for group in definitions.locator_groups if group.name in groups),
        prefixes=frozenset(
            _prefix(item) for table in tables for item in table.items if item.link_group in groups
        ),
        has_other_links=any(
            (link.group or "") in groups or link.group is None
            for each in definitions.data_defs
            if each.axis is None
            for link in each.links
        ),
    )  # fmt: skip


def convert_links(table: AxisTable, origin: LinkOrigin) -> Records:
    """The links of a table that `find_obstacles` finds nothing in. Raises NotConvertible."""
    followed = [item for item in table.items if item.link_group is not None]
    if not followed:
        raise NotConvertible("no item has a `linkGroup`")
    differences = ["a link of each element that matches is followed, once for its group, unless it is marked nofollow"]
    links: list[Part] = []
    for item in followed:
        differences += [text for text in _check_base(item, table, origin) if text not in differences]
        found = _selector_of(item, table)
        links.append(_link(item, found))
        differences += [f"'{item.name}' {MISSED_BLOCK}"] * found.misses_block
    names = {locator.name for group in origin.locators for locator in group.locators}
    if len(names) > 1:
        differences.append("a page that several locators lead to gives its rows once, with the name of the first")
    return Records(parts={"links": links}, differences=tuple(differences))


def _selector_of(item: Axis, table: AxisTable) -> RecordSelector:
    flavour = table.flavour or "css"
    block, selector = table.block, item.selector or ""
    in_block = f"{ITEM}.index" in variable_names(block)
    if in_block and item.first != item.last and {"index", f"{ITEM}.index"} & set(variable_names(selector)):
        raise NotConvertible(f"'{item.name}': its index stands in the block and in the selector")
    texts = {f"{ITEM}.match": item.match or ""} | (
        {f"{ITEM}.index": str(item.first)} if item.first == item.last else {}
    )
    if in_block:
        block = spread(block, f"{ITEM}.index", item.first, item.last, flavour)
        texts |= {"index": str(item.first), f"{ITEM}.index": str(item.first)}
    elif "index" in variable_names(selector):
        selector = spread(selector, "index", item.first, item.last, flavour)
    elif item.first != item.last:
        raise NotConvertible(f"'{item.name}' has several indexes, and its selector none")
    return on_page(fill(block, texts, flavour), fill(selector, texts, flavour), flavour, as_written=True)


def _link(item: Axis, found: RecordSelector) -> dict[str, Part]:
    link: dict[str, Part] = {"selector": found.selector}
    if found.attribute not in (None, _ATTRIBUTE):
        link["attribute"] = found.attribute or ""
    link["linkGroup"] = item.link_group or ""
    if not _prefix(item):
        link["sameHost"] = False
    return link


def _check_base(item: Axis, table: AxisTable, origin: LinkOrigin) -> Iterable[str]:
    """What relative links resolve against: in records it is their page, which must lie in the folder of the prefix."""
    prefix = _prefix(item)
    if not prefix:
        absolute = all(url is not None and urls.is_http_url(url) for url in _start_urls(origin.locators))
        if table.base_url is not None or not absolute:
            yield "relative links resolve against their page; in the table against the base URL"
        return
    base = table.base_url or _UNKNOWN_SITE
    folders = {None if url is None else _folder(urls.join(base, url) or "") for url in _start_urls(origin.locators)}
    folder = urls.join(base, prefix)
    if folders != {folder} or origin.has_other_links or not origin.prefixes <= {prefix}:
        raise NotConvertible(f"'{item.name}': `links` have no `prefix`, and not all pages lie in {prefix}")
    yield f"'{item.name}' has no prefix: links resolve against their page, and the locators lie in {prefix}"


def _start_urls(groups: Sequence[LocatorGroup]) -> list[str | None]:
    """The URLs of locators as written; None: they are not in the definitions."""
    found: list[str | None] = []
    for group in groups:
        for locator in group.locators:
            found += locator.urls
            if locator.from_file is not None or locator.sitemap is not None:
                found.append(None)
    return found or [None]


def _folder(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[0] + "/"


def _prefix(item: Axis) -> str:
    return "".join(reversed(item.prefix))
