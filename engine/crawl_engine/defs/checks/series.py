"""Checks the locators with `until`: their ranges, and what tells that a page is the last."""

import re

from crawl_engine import urls
from crawl_engine.defs import url_patterns
from crawl_engine.defs.builders.bodies import iter_scalars
from crawl_engine.defs.builders.series_patterns import choose_range, expand_series, split_url
from crawl_engine.defs.language.keys import data_def_of, has_records, iter_tasks, written_urls
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.url_patterns import SeriesRange, read_range
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.errors import UsageError
from crawl_engine.model.variables import render

_ANY_BASE = "http://base.example/"


def check(root: YamlNode, problems: Problems) -> None:
    """Checks each locator, and each task group that is `canonical`."""
    for name, group in root.entries_of("locatorGroups"):
        _check_names_of_series(name, group.node.list_of("locators"), problems)
        for locator in group.node.list_of("locators"):
            _check_series(root, name, locator, problems)
    _check_canonical(root, problems)


def has_content(data_def: YamlNode) -> bool:
    """Whether a dataDef tells that a page is empty: by its blocks, or its links."""
    return has_records(data_def) or bool(data_def.list_of("links"))


def add_no_content(node: YamlNode, problems: Problems, key: str = "until") -> None:
    """Report that no dataDef tells when the pages of `until`, or of a `next` that adds, end."""
    written = "`until: empty`" if key == "until" else f"`{key}`"
    message = f"{written} needs a dataDef with `query.block` or `links`, which tell whether a page is empty"
    problems.add(node.key_place(key), "conflict", message)


def _check_series(root: YamlNode, group: str, locator: YamlNode, problems: Problems) -> None:
    """Check the ranges of a locator with `until`, or with an open range."""
    if locator.kind != "mapping":
        return
    bodies = [entry.node for key in ("form", "json") if (entry := locator.entries.get(key)) is not None]
    in_bodies = [range_ for body in bodies for node in iter_scalars(body) for range_ in _ranges(node)]
    ranges = [(node, [*_ranges(node), *in_bodies]) for node in written_urls(locator)]
    if "until" not in locator.entries:
        for node, of_url in ranges:
            if any(range_.last is None for range_ in of_url):
                message = "the range has no end; add `until: empty`, or write its last number"
                problems.add(node.place, "open-range", message)
        return
    for key in ("from", "sitemap"):
        if key in locator.entries:
            message = f"`until` follows the range of a URL, and `{key}` has no range; write a locator of its own for it"
            problems.add(locator.key_place(key), "conflict", message)
    for node, of_url in ranges:
        if not of_url and _has_valid_braces(node):
            message = "`until` needs a range of pages, `{1..}` or `{0..*..20}`, in the URL, `form` or `json`"
            problems.add(locator.key_place("until"), "missing-range", message)
        chosen = choose_range(of_url)
        if (chosen is not None and of_url.count(chosen) > 1) or sum(r.last is None for r in of_url) > 1:
            problems.add(node.place, "conflict", "only one range can be that of `until`: its pages follow one another")
        _check_place_of_range(node, choose_range(_ranges(node)), problems)
    tasks = dict(root.entries_of("taskGroups")).get(group)
    data_defs = dict(root.entries_of("dataDefs"))
    used = [data_defs.get(data_def_of(task)) for _, task in iter_tasks(tasks.node)] if tasks else []
    with_next = [entry for entry in used if entry is not None and "next" in entry.node.entries]
    if with_next:
        message = "`until` of a locator and `next` of its dataDef both lead to the page that follows; keep one"
        problems.add(locator.key_place("until"), "conflict", message)
    existing = [entry.node for entry in used if entry is not None]
    if existing and not any(map(has_content, existing)):
        add_no_content(locator, problems)


def _check_names_of_series(group: str, locators: list[YamlNode], problems: Problems) -> None:
    """Warn of locators that meet in one series: a page belongs to the locators of one name once."""
    with_series = [locator for locator in locators if locator.kind == "mapping" and "until" in locator.entries]
    names = [locator.text_of("name") or group for locator in with_series]
    for locator, name in zip(with_series, names, strict=True):
        if names.count(name) > 1 and locator is not with_series[names.index(name)]:
            message = f"another locator with `until` has the name '{name}': where both have a page, one of them ends"
            problems.warn(locator.key_place("until"), "same-name", f"{message}; give each its own `name`")


def _check_canonical(root: YamlNode, problems: Problems) -> None:
    """Refuse `canonical` where pages follow one another: most name the first one as their canonical URL."""
    data_defs = dict(root.entries_of("dataDefs"))
    groups = dict(root.entries_of("locatorGroups"))
    for name, group in root.entries_of("taskGroups"):
        if not group.node.is_true("canonical"):
            continue
        locators = groups[name].node.list_of("locators") if name in groups else []
        used = [data_defs.get(data_def_of(task)) for _, task in iter_tasks(group.node)]
        has_next = any(entry is not None and "next" in entry.node.entries for entry in used)
        if has_next or any("until" in locator.entries for locator in locators):
            message = "`canonical` would end the series of this group: such pages often name the first as canonical"
            problems.add(group.node.key_place("canonical"), "conflict", f"{message}; remove it, or `until` and `next`")


def _check_place_of_range(node: YamlNode, range_: SeriesRange | None, problems: Problems) -> None:
    if range_ is None:
        return
    before = ""
    for token in url_patterns.split(node.text.strip()):
        if token.kind == "brace" and read_range(token.text) == range_:
            break
        before += "x" if token.kind == "brace" else token.text
    if re.fullmatch(r"(https?:)?[/\\]{2}[^/\\?#]*", before, re.IGNORECASE):
        message = "the range of `until` cannot be in the host; write a locator for each host"
        problems.add(node.place, "bad-range", message)
    elif split_url(next(expand_series(node.text, None, (), None)).url, _resolve_anywhere) is None:
        problems.add(node.place, "bad-range", "the range of `until` is not part of the URL that is sent")


def _resolve_anywhere(url: str) -> str | None:
    return urls.resolve(render(urls.split_userinfo(url)[0], lambda _: "1"), _ANY_BASE)


def _has_valid_braces(node: YamlNode) -> bool:
    try:
        url_patterns.count(node.text)
    except UsageError:
        return False
    return True


def _ranges(node: YamlNode) -> list[SeriesRange]:
    """The ranges of a text; empty for literal braces, and for invalid ones, which another check reports."""
    try:
        braces = [token.text for token in url_patterns.split(node.text) if token.kind == "brace"]
    except UsageError:
        return []
    return [range_ for brace in braces if (range_ := read_range(brace)) is not None]
