"""Decides by hashes what a change of the defs means for stored pages."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.host_rules import is_pattern, split_port
from crawl_engine.model.definition import Definitions, TaskGroup, definition_hash


def list_query_rules(definitions: Definitions) -> Mapping[str, tuple[str, ...]]:
    """The patterns of query keys to drop, by name of the rule; empty if no host drops any.

    A rule that drops nothing is included if it may override one that does. The order of patterns means nothing, so
    they are sorted.
    """
    rules = {rule.name: tuple(sorted(set(rule.drop))) for rule in definitions.hosts}
    if any(keys and is_pattern(name) for name, keys in rules.items()):
        return dict(sorted(rules.items()))
    named = {name: keys for name, keys in sorted(rules.items()) if keys or rules.get(split_port(name)[0])}
    return named if any(named.values()) else {}


def list_routed_groups(definitions: Definitions) -> list[str]:
    """The groups whose URLs have routes: a browser loads their pages."""
    return [one.name for one in definitions.task_groups if one.loader is not None and one.loader.browser.routes]


_PAGE_LOADER = "PageLoader"
"""The built-in loader."""


class ExtractionUnit(NamedTuple):
    """A source of rows: a dataDef, and the task whose chain its rows go through."""

    data_def: str
    task: str
    """Empty with the default chain, for which tasks do not matter."""
    hash: str
    """Rows made under another hash are not current."""


def list_units(
    definitions: Definitions, group: TaskGroup, hashes: Mapping[str, str] | None = None
) -> list[ExtractionUnit]:
    """The units of a group's pages, in the order of its tasks; equal ones once. `hashes`: of dataDefs, by name.

    Loaders, and the limits and workers of steps, do not count: they change no row of a stored page.
    """
    units: dict[tuple[str, str], ExtractionUnit] = {}
    for task in group.tasks:
        data_def = definitions.data_def(task.data_def)
        if data_def is None:
            continue
        hash_ = definition_hash(data_def) if hashes is None else hashes[data_def.name]
        behind_loader = [s for s in task.chain if s.kind != "loader" and s.class_name != _PAGE_LOADER]
        chain = [replace(step, limit=None, workers=1) for step in behind_loader]
        if group.canonical:
            hash_ = definition_hash([hash_, "canonical"])
        has_own_chain = any(step.is_plugin or step.previous for step in chain)
        if has_own_chain:
            hash_ = definition_hash([task.name, hash_, chain, task.code])
        unit = ExtractionUnit(data_def.name, task.name if has_own_chain else "", hash_)
        units.setdefault(unit[:2], unit)
    return list(units.values())


class GroupFingerprint(Struct, frozen=True, kw_only=True):
    """The defs that apply to the pages of one group."""

    group: str
    data_defs: tuple[tuple[str, str], ...]
    """Name of the dataDef and hash of each unit of extraction, in the order of the tasks."""
    follow_hash: str
    """A hash of everything besides the dataDefs that decides on links: target groups, depths, `nofollow`, `drop`."""

    @property
    def hash(self) -> str:
        """Pages of the group with another hash are stale."""
        return definition_hash([self.data_defs, self.follow_hash])

    def hashes_by_data_def(self) -> dict[str, list[str]]:
        """The hashes of the units of each dataDef."""
        hashes: dict[str, list[str]] = {}
        for name, hash_ in self.data_defs:
            hashes.setdefault(name, []).append(hash_)
        return hashes


class PreparedDefs(Struct, frozen=True, kw_only=True):
    """Defs ready to publish, with everything that is slow to compute."""

    definitions: Definitions
    hash: str
    """A hash of the meaning: formatting and comments do not count."""
    text: str
    """The stored form."""
    data_defs: dict[str, str]
    """Hash of each dataDef by name."""
    groups: tuple[GroupFingerprint, ...]

    @classmethod
    def from_definitions(cls, definitions: Definitions) -> "PreparedDefs":
        """Prepare these defs."""
        hashes = {data_def.name: definition_hash(data_def) for data_def in definitions.data_defs}
        nofollow_rules = sorted((rule.name, rule.nofollow) for rule in definitions.hosts if not rule.nofollow)
        host_rules: list[object] = [json.dumps(nofollow_rules), list_query_rules(definitions)]
        return cls(
            definitions=definitions,
            hash=definition_hash(definitions),
            text=definitions.to_json(),
            data_defs=hashes,
            groups=tuple(
                _group_fingerprint(definitions, group, hashes, host_rules) for group in definitions.task_groups
            ),
        )


def _group_fingerprint(
    definitions: Definitions, group: TaskGroup, hashes: dict[str, str], host_rules: list[object]
) -> GroupFingerprint:
    return GroupFingerprint(
        group=group.name,
        data_defs=tuple((unit.data_def, unit.hash) for unit in list_units(definitions, group, hashes)),
        follow_hash=_follow_hash(definitions, group, host_rules),
    )


def _follow_hash(definitions: Definitions, group: TaskGroup, host_rules: list[object]) -> str:
    targets = _link_targets(definitions, group)
    if not targets:
        return ""
    named = {name: target for name in sorted(targets) if (target := definitions.task_group(name))}
    limits = [(name, target.max_depth) for name, target in named.items()]
    routeless = [name for name, target in named.items() if target.loader and not target.loader.browser.routes]
    return definition_hash([limits, *host_rules, *([["routes", routeless]] if routeless else [])])


def feeding_groups(definitions: Definitions, data_def: str) -> set[str]:
    """The groups whose pages give rows of a dataDef, or lead to such pages."""
    groups = definitions.task_groups
    feeding = {group.name for group in groups if any(task.data_def == data_def for task in group.tasks)}
    while new := {g.name for g in groups if not feeding.isdisjoint(_link_targets(definitions, g))} - feeding:
        feeding |= new
    return feeding


def _link_targets(definitions: Definitions, group: TaskGroup) -> set[str]:
    """The groups that links of a group's pages may lead to."""
    used = [data_def for task in group.tasks if (data_def := definitions.data_def(task.data_def)) is not None]
    if any(task.chain for task in group.tasks) or any(data_def.code for data_def in used):
        return {other.name for other in definitions.task_groups}  # plugin code may follow links into any
    targets = {link.group or group.name for data_def in used for link in data_def.links}
    return targets | {group.name} if any(data_def.next is not None for data_def in used) else targets
