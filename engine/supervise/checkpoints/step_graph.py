"""Derives the steps of each group from the defs: content hashes and dependencies. Knows no database."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from engine.defs.steps import RECORD_DEFAULT, STEP_SETS
from engine.model.definition import DataDef, Definitions, LocatorGroup, TaskGroup, definition_hash
from engine.supervise.outputs import appender_for_file, output_settings

SEEDER, LOADER, PARSER, FILTER, CONVERTER, APPENDER = (
    "seeder", "loader", "parser", "filter", "converter", "appender",
)  # fmt: skip
STEP_INPUTS: Mapping[str, str] = {
    SEEDER: "its locators", LOADER: "what it fetches", PARSER: "what it extracts", FILTER: "its filters",
    CONVERTER: "what it extracts", APPENDER: "its outputs",
}  # fmt: skip
PAGE_STEPS = frozenset({LOADER, PARSER, FILTER, CONVERTER})
"""Steps whose change applies to later pages only: pages that are done keep their results."""


_LinkHashes = dict[str, list[str]]
"""By group: a hash for each link of its pages to one other group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """A step as the defs define it. `dependencies` as in `Checkpoint`."""

    name: str
    group: str
    content_hash: str
    dependencies: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """GROUP/STEP."""
        return f"{self.group}/{self.name}"


@dataclass(frozen=True, slots=True)
class StepGraph:
    """All steps of a set of defs, in the order of groups and steps."""

    steps: tuple[StepSpec, ...]
    upstream: Mapping[str, frozenset[str]]
    """By group: the other groups whose pages may give it jobs, directly or through further groups."""
    data_defs: Mapping[str, tuple[str, ...]]
    """By group: the dataDefs whose rows go to outputs."""


def seeder_hash(group: LocatorGroup, base_url: str | None) -> str:
    """The content hash of a seeder: the locators as written, and the base of relative ones."""
    return _hash("seeder", definition_hash(group), base_url)


def build_step_graph(definitions: Definitions, *, base_url: str | None, output: Path | None) -> StepGraph:
    """The steps of these defs. `output`: the file of `-o`."""
    located = {group.name: group for group in definitions.locator_groups}
    groups = {group.name: group for group in definitions.task_groups}
    names = list(dict.fromkeys([*located, *groups]))
    links = _links_by_target(definitions, groups.values())
    feeders = {name: tuple(f for f in links.get(name, {}) if f != name) for name in names}
    steps: list[StepSpec] = []
    for name in names:
        group = groups.get(name) or TaskGroup(name=name)
        chain = [step for step in _group_steps(group) if step != SEEDER or name in located]
        previous = {step: (before,) for before, step in pairwise(chain)}
        for step in chain:
            content = (
                seeder_hash(located[name], base_url)
                if step == SEEDER
                else _content_hash(step, definitions, links.get(name, {}), group, output)
            )
            fed = tuple(f"{feeder}/{LOADER}" for feeder in feeders[name]) if step == LOADER else ()
            steps.append(
                StepSpec(name=step, group=name, content_hash=content, dependencies=(*previous.get(step, ()), *fed))
            )
    return StepGraph(
        tuple(steps),
        {name: _upstream_groups(name, feeders) - {name} for name in names},
        {name: tuple(d.name for d in _group_data_defs(definitions, groups.get(name)) if d.fields) for name in names},
    )


def find_dependents(changed: Iterable[str], dependencies: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Every step that depends on a changed one, directly or through others, with that one. All are GROUP/STEP."""
    followers: dict[str, list[str]] = defaultdict(list)
    for key, names in dependencies.items():
        for name in names:
            followers[name].append(key)
    sources = {key: key for key in changed}
    causes: dict[str, str] = {}
    todo = list(sources.items())
    while todo:
        key, cause = todo.pop(0)
        for follower in followers[key]:
            if follower not in causes and follower not in sources:
                causes[follower] = cause
                todo.append((follower, cause))
    return causes


def _group_steps(group: TaskGroup) -> list[str]:
    """The steps of a group's tasks in order; those of the default set if it has no task."""
    sets = [STEP_SETS.get(task.steps or RECORD_DEFAULT, STEP_SETS[RECORD_DEFAULT]) for task in group.tasks]
    longest = max(sets, key=len, default=STEP_SETS[RECORD_DEFAULT])
    return list(longest)


def _content_hash(
    step: str, definitions: Definitions, links: _LinkHashes, group: TaskGroup, output: Path | None
) -> str:
    data_defs = _group_data_defs(definitions, group)
    match step:
        case "loader":
            # delays and concurrency do not change what is fetched
            rules = sorted(
                (h.name, sorted(h.headers.items()), sorted(h.cookies.items()), h.robots, h.nofollow)
                + (() if h.private is None else (h.private,))
                for h in definitions.hosts
            )
            hashes = sorted(hash_ for of_group in links.values() for hash_ in of_group)
            loaders = [
                (loader.class_name, definition_hash(loader.options), task.loader_code)
                for task in group.tasks[:1]  # those of all tasks are equal
                for loader in task.chain
                if loader.kind == "loader"
            ]
            return _hash(step, hashes, group.max_depth, group.max_pages, rules, *loaders)
        case "filter":
            return _hash(step, [(d.name, [definition_hash(f) for f in d.filters]) for d in data_defs])
        case "appender":
            appenders = (
                {d.name: [appender_for_file(output)] for d in data_defs}
                if output
                else {d.name: list(definitions.appenders_of(d.name)) for d in data_defs}
            )
            outputs = [
                (a.name, a.type, a.path, d.name, output_settings(d, a))
                for d in data_defs
                if d.fields
                for a in appenders[d.name]
            ]
            return _hash(step, outputs, str(output.absolute()) if output else None)
    persisted = [(task.data_def, task.persist) for task in group.tasks]
    return _hash(step, [definition_hash(replace(d, filters=())) for d in data_defs], persisted)


def _group_data_defs(definitions: Definitions, group: TaskGroup | None) -> list[DataDef]:
    """The dataDefs of a group's tasks, without duplicates."""
    names = dict.fromkeys(task.data_def for task in group.tasks) if group else ()
    return [data_def for name in names if (data_def := definitions.data_def(name)) is not None]


def _links_by_target(definitions: Definitions, groups: Iterable[TaskGroup]) -> dict[str, _LinkHashes]:
    """The links into each group."""
    links: dict[str, _LinkHashes] = {}
    for group in groups:
        for data_def in _group_data_defs(definitions, group):
            for link in data_def.links:
                hash_ = _hash("link", group.name, data_def.block, definition_hash(link))
                links.setdefault(link.group or group.name, {}).setdefault(group.name, []).append(hash_)
    return links


def _upstream_groups(name: str, feeders: Mapping[str, Iterable[str]]) -> frozenset[str]:
    upstream: set[str] = set()
    todo = [name]
    while todo:
        for feeder in feeders[todo.pop()]:
            if feeder not in upstream:
                upstream.add(feeder)
                todo.append(feeder)
    return frozenset(upstream)


def _hash(*parts: Any) -> str:
    """A hash of 32 hex digits."""
    return hashlib.blake2b(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()
