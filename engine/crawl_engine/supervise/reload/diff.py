"""Compares two versions of the defs, and describes the changes to the operator."""

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from crawl_engine.errors import plural
from crawl_engine.model.definition import DataDef, Definitions, TaskGroup, definition_hash
from crawl_engine.model.fingerprint import PreparedDefs, list_query_rules
from crawl_engine.model.locator import Locator
from crawl_engine.model.step import PluginFile

_MAX_NAMED = 3


def stale_groups(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Groups of both versions whose pages are extracted differently now. `old`, `new`: page hashes by group."""
    return [group for group, page_hash in new.items() if group in old and old[group] != page_hash]


def find_stale_groups(old: PreparedDefs, new: PreparedDefs) -> list[str]:
    """The stale groups between two sets of defs."""
    return stale_groups(*({group.group: group.hash for group in defs.groups} for defs in (old, new)))


def changed_data_defs(old: PreparedDefs, new: PreparedDefs) -> list[str]:
    """DataDefs that differ between the versions, in the order of the new ones."""
    names = dict.fromkeys([*new.data_defs, *old.data_defs])
    return [name for name in names if old.data_defs.get(name) != new.data_defs.get(name)]


def relinked_groups(old: Definitions, new: Definitions, stale: Collection[str]) -> list[str]:
    """Groups that may lose links to their pages, if the re-extraction of stale pages can show it."""
    before, after = _links_by_target(old), _links_by_target(new)
    if all(before.get(group) == after.get(group) for group in stale):
        return []
    targets = {target for links in (*before.values(), *after.values()) for target in links}
    decidable = [t for t in targets if all(group in stale for group, links in after.items() if t in links)]
    return sorted(t for t in decidable if any(t in before.get(group, {}) for group in stale))


def _links_by_target(definitions: Definitions) -> dict[str, dict[str, str]]:
    """By group and target group of its links: a hash of those links, the depth limit and the dropped query keys."""
    by_group: dict[str, dict[str, str]] = {}
    query_rules = list_query_rules(definitions)
    for group in definitions.task_groups:
        by_target: dict[str, list[object]] = {}
        for name in dict.fromkeys(task.data_def for task in group.tasks):
            data_def = definitions.data_def(name)
            for link in data_def.links if data_def else ():
                by_target.setdefault(link.group or group.name, []).append(
                    [*([data_def.block, data_def.sources] if data_def else [""]), link]
                )
        depth = {g.name: g.max_depth for g in definitions.task_groups}
        by_group[group.name] = {
            target: definition_hash([links, depth.get(target), query_rules]) for target, links in by_target.items()
        }
    return by_group


def describe_changes(old: PreparedDefs, new: PreparedDefs, pages: int) -> str:
    """`book: 2 fields changed, 1,204 pages to re-extract, 3 locators added`."""
    before, after = old.definitions, new.definitions
    changes = [
        "; ".join(_describe_data_def(before.data_def(n), after.data_def(n), n) for n in changed_data_defs(old, new))
    ]
    if pages:
        changes.append(f"{plural(pages, 'page')} to re-extract")
    changes += _describe_locators(before, after)
    changes += _describe_names([g.name for g in before.task_groups], [g.name for g in after.task_groups], "group")
    changes += _describe_loaders(before, after)
    if _hash_all(map(_without_loading, before.task_groups)) != _hash_all(map(_without_loading, after.task_groups)):
        changes.append("tasks or limits changed")
    changes += _describe_plugins(before.plugins, after.plugins)
    changes += [
        f"{noun} changed"
        for noun in ("hosts", "appenders")
        if _section_hash(before, noun) != _section_hash(after, noun)
    ]
    return ", ".join(filter(None, changes)) or "nothing visible"


def count_locators(old: Definitions, new: Definitions) -> tuple[int, int]:
    """The numbers of locators, as written in the defs, that were added and removed."""
    before, after = _locator_requests(old), _locator_requests(new)
    return len(after - before), len(before - after)


def _describe_data_def(before: DataDef | None, after: DataDef | None, name: str) -> str:
    if before is None or after is None:
        return f"{name}: {'removed' if after is None else 'new'}"
    old = {field.name: definition_hash(field) for field in before.fields}
    new = {field.name: definition_hash(field) for field in after.fields}
    numbers = {
        "changed": sum(new[n] != old[n] for n in new.keys() & old.keys()),
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
    }
    changes = [f"{plural(number, 'field')} {verb}" for verb, number in numbers.items() if number]
    if not changes and list(old) != list(new):
        changes.append("fields in another order")
    for part in ("links", "filters", "sources", "block", "key"):
        shown = "from" if part == "sources" else part
        changes += [f"{shown} changed"] if _attribute_hash(before, part) != _attribute_hash(after, part) else []
    return f"{name}: {', '.join(changes) or 'changed'}"


def _describe_locators(before: Definitions, after: Definitions) -> list[str]:
    numbers = zip(("added", "removed"), count_locators(before, after), strict=True)
    return [f"{plural(number, 'locator')} {verb}" for verb, number in numbers if number]


def _locator_requests(definitions: Definitions) -> set[tuple[str, str]]:
    def requests(group: str, locator: Locator) -> Iterable[tuple[str, str]]:
        request = [locator.method, locator.body, locator.headers, locator.cookies]
        if locator.cookie_scope is not None:
            request.append(locator.cookie_scope)
        request_hash = definition_hash({"request": request})
        for url in (*locator.urls, locator.from_file, locator.sitemap):
            if url:
                yield group, f"{request_hash} {url}"
        if locator.sitemap_rules is not None:
            yield group, f"{request_hash} {locator.sitemap} {definition_hash(locator.sitemap_rules)}"

    return {
        request
        for group in definitions.locator_groups
        for locator in group.locators
        for request in requests(group.name, locator)
    }


def _describe_names(old: list[str], new: list[str], noun: str) -> list[str]:
    changes = []
    for verb, names in (("added", [n for n in new if n not in old]), ("removed", [n for n in old if n not in new])):
        if names:
            more = "…" if len(names) > _MAX_NAMED else ""
            changes.append(f"{plural(len(names), noun)} {verb} ({', '.join(names[:_MAX_NAMED])}{more})")
    return changes


def _describe_loaders(before: Definitions, after: Definitions) -> list[str]:
    old = {group.name: group.loader for group in before.task_groups}
    changed = [group.name for group in after.task_groups if old.get(group.name, group.loader) != group.loader]
    if not changed:
        return []
    more = "…" if len(changed) > _MAX_NAMED else ""
    names = ", ".join(changed[:_MAX_NAMED])
    return [f"loader of {names}{more} changed (stored pages stay; `retry --state done` loads them again)"]


def _without_loading(group: TaskGroup) -> TaskGroup:
    """The group without its loader and the hashes of plugin code: their changes are described apart."""
    return replace(group, loader=None, tasks=tuple(replace(task, code="", loader_code="") for task in group.tasks))


def _describe_plugins(before: Iterable[PluginFile], after: Iterable[PluginFile]) -> list[str]:
    old, new = {file.path: file.text for file in before}, {file.path: file.text for file in after}
    changed = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
    more = "…" if len(changed) > _MAX_NAMED else ""
    names = ", ".join(f"plugins/{path}" for path in changed[:_MAX_NAMED])
    return [f"{names}{more} changed"] if changed else []


def _hash_all(parts: Iterable[object]) -> set[str]:
    return {definition_hash(part) for part in parts}


def _section_hash(definitions: Definitions, name: str) -> str:
    return definition_hash(getattr(definitions, name))


def _attribute_hash(data_def: DataDef, part: str) -> str:
    return definition_hash(getattr(data_def, part))
