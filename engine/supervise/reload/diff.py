"""What a change of the defs means, in words for an operator. Knows no table."""

from collections.abc import Collection, Iterable, Mapping

from engine.model.definition import DataDef, Definitions, Locator, definition_hash
from engine.model.fingerprint import PreparedDefs

_MAX_NAMED = 3


def stale_groups(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Groups of both whose pages are worked otherwise now; by group, the hashes of two versions."""
    return [group for group, told in new.items() if group in old and old[group] != told]


def changed_data_defs(old: PreparedDefs, new: PreparedDefs) -> list[str]:
    """DataDefs of either that are not the same in the other, in the order of the new ones."""
    names = dict.fromkeys([*new.data_defs, *old.data_defs])
    return [name for name in names if old.data_defs.get(name) != new.data_defs.get(name)]


def relinked_groups(old: Definitions, new: Definitions, stale: Collection[str]) -> list[str]:
    """Groups whose pages some links may no longer lead to: of which it will be known, once stale pages are worked."""
    before, after = _links_by_target(old), _links_by_target(new)
    if all(before.get(group) == after.get(group) for group in stale):
        return []
    targets = {target for leads in (*before.values(), *after.values()) for target in leads}
    known = [t for t in targets if all(group in stale for group, leads in after.items() if t in leads)]
    return sorted(t for t in known if any(t in before.get(group, {}) for group in stale))


def _links_by_target(definitions: Definitions) -> dict[str, dict[str, str]]:
    """By group, and by the group that its links lead to: a hash of those links and of how deep they may lead."""
    found: dict[str, dict[str, str]] = {}
    for group in definitions.task_groups:
        leads: dict[str, list[object]] = {}
        for name in dict.fromkeys(task.data_def for task in group.tasks):
            data_def = definitions.data_def(name)
            for link in data_def.links if data_def else ():
                leads.setdefault(link.group or group.name, []).append([data_def.block if data_def else "", link])
        depth = {g.name: g.max_depth for g in definitions.task_groups}
        found[group.name] = {target: definition_hash([links, depth.get(target)]) for target, links in leads.items()}
    return found


def describe_changes(old: PreparedDefs, new: PreparedDefs, pages: int) -> str:
    """`book: 2 fields changed, 1,204 pages to re-extract, 3 locators added`."""
    before, after = old.definitions, new.definitions
    told = [
        "; ".join(_describe_data_def(before.data_def(n), after.data_def(n), n) for n in changed_data_defs(old, new))
    ]
    if pages:
        told.append(f"{pluralize(pages, 'page')} to re-extract")
    told += _describe_locators(before, after)
    told += _describe_names([g.name for g in before.task_groups], [g.name for g in after.task_groups], "group")
    if _hash_all(before.task_groups) != _hash_all(after.task_groups):
        told.append("tasks or limits changed")
    told += [
        f"{noun} changed"
        for noun in ("hosts", "appenders")
        if _section_hash(before, noun) != _section_hash(after, noun)
    ]
    return ", ".join(filter(None, told)) or "nothing that shows"


def pluralize(count: int, noun: str) -> str:
    """`1 page`, `1,204 pages`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


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
    told = [f"{pluralize(number, 'field')} {verb}" for verb, number in numbers.items() if number]
    if not told and list(old) != list(new):
        told.append("fields in another order")
    for part in ("links", "filters", "block", "key"):
        told += [f"{part} changed"] if _attribute_hash(before, part) != _attribute_hash(after, part) else []
    return f"{name}: {', '.join(told) or 'changed'}"


def _describe_locators(before: Definitions, after: Definitions) -> list[str]:
    old, new = _locator_requests(before), _locator_requests(after)
    numbers = {"added": len(new - old), "removed": len(old - new)}
    return [f"{pluralize(number, 'locator')} {verb}" for verb, number in numbers.items() if number]


def _locator_requests(definitions: Definitions) -> set[tuple[str, str]]:
    def one(group: str, locator: Locator) -> Iterable[tuple[str, str]]:
        bare = definition_hash({"request": [locator.method, locator.body, locator.headers, locator.cookies]})
        for url in (*locator.urls, locator.from_file, locator.sitemap):
            if url:
                yield group, f"{bare} {url}"

    return {
        told for group in definitions.locator_groups for locator in group.locators for told in one(group.name, locator)
    }


def _describe_names(old: list[str], new: list[str], noun: str) -> list[str]:
    told = []
    for verb, names in (("added", [n for n in new if n not in old]), ("removed", [n for n in old if n not in new])):
        if names:
            more = "…" if len(names) > _MAX_NAMED else ""
            told.append(f"{pluralize(len(names), noun)} {verb} ({', '.join(names[:_MAX_NAMED])}{more})")
    return told


def _hash_all(parts: Iterable[object]) -> set[str]:
    return {definition_hash(part) for part in parts}


def _section_hash(definitions: Definitions, name: str) -> str:
    return definition_hash(getattr(definitions, name))


def _attribute_hash(data_def: DataDef, part: str) -> str:
    return definition_hash(getattr(data_def, part))
