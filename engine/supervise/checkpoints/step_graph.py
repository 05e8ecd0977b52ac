"""The steps of each group, what each is made of, and on which others it rests. Pure: knows defs, and no database."""

import hashlib
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
"""Steps that are done anew for pages still to come alone: a page that is done keeps what it gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """A step as the defs want it. `dependencies` as in store.checkpoints."""

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
    """By group: those whose pages may give it more jobs, through whatever groups; not itself."""
    data_defs: Mapping[str, tuple[str, ...]]
    """By group: the dataDefs whose rows go to outputs."""


def seeder_hash(group: LocatorGroup, base_url: str | None) -> str:
    """The content of a seeder: the locators as written, and what relative ones resolve against."""
    return _hash("seeder", definition_hash(group), base_url)


def build_step_graph(definitions: Definitions, *, base_url: str | None, output: Path | None) -> StepGraph:
    """The steps that these defs ask for. `output`: the file of `-o`."""
    located = {group.name: group for group in definitions.locator_groups}
    groups = {group.name: group for group in definitions.task_groups}
    names = list(dict.fromkeys([*located, *groups]))
    feeders = {
        name: tuple(f for f in names if f != name and _link_hashes(definitions, groups.get(f), name)) for name in names
    }
    steps: list[StepSpec] = []
    for name in names:
        group = groups.get(name) or TaskGroup(name=name)
        chain = [step for step in _group_steps(group) if step != SEEDER or name in located]
        before = {after: (step,) for step, after in pairwise(chain)}
        for step in chain:
            content = (
                seeder_hash(located[name], base_url)
                if step == SEEDER
                else _content_hash(step, definitions, groups, group, output)
            )
            fed = tuple(f"{feeder}/{LOADER}" for feeder in feeders[name]) if step == LOADER else ()
            steps.append(
                StepSpec(name=step, group=name, content_hash=content, dependencies=(*before.get(step, ()), *fed))
            )
    return StepGraph(
        tuple(steps),
        {name: _upstream_groups(name, feeders) - {name} for name in names},
        {name: tuple(d.name for d in _group_data_defs(definitions, groups.get(name)) if d.fields) for name in names},
    )


def _group_steps(group: TaskGroup) -> list[str]:
    """The steps of a group's tasks, in their order; those of the default set where it has no task."""
    sets = [STEP_SETS.get(task.steps or RECORD_DEFAULT, STEP_SETS[RECORD_DEFAULT]) for task in group.tasks]
    longest = max(sets, key=len, default=STEP_SETS[RECORD_DEFAULT])
    return list(longest)


def _content_hash(
    step: str, definitions: Definitions, groups: Mapping[str, TaskGroup], group: TaskGroup, output: Path | None
) -> str:
    made_of = _group_data_defs(definitions, group)
    match step:
        case "loader":
            links = [link for f in groups.values() for link in _link_hashes(definitions, f, group.name)]
            # manners of speed and order change nothing of what is fetched
            rules = sorted(
                (h.name, sorted(h.headers.items()), sorted(h.cookies.items()), h.robots, h.nofollow)
                for h in definitions.hosts
            )
            return _hash(step, sorted(links), group.max_depth, group.max_pages, rules)
        case "filter":
            return _hash(step, [(d.name, [definition_hash(f) for f in d.filters]) for d in made_of])
        case "appender":
            appenders = (
                {d.name: [appender_for_file(output)] for d in made_of}
                if output
                else {d.name: list(definitions.appenders_of(d.name)) for d in made_of}
            )
            outputs = [
                (a.name, a.type, a.path, d.name, output_settings(d, a.delimiter))
                for d in made_of
                if d.fields
                for a in appenders[d.name]
            ]
            return _hash(step, outputs, str(output.absolute()) if output else None)
    persisted = [(task.data_def, task.persist) for task in group.tasks]
    return _hash(step, [definition_hash(replace(d, filters=())) for d in made_of], persisted)


def _group_data_defs(definitions: Definitions, group: TaskGroup | None) -> list[DataDef]:
    """The dataDefs of a group's tasks, each once."""
    names = dict.fromkeys(task.data_def for task in group.tasks) if group else ()
    return [found for name in names if (found := definitions.data_def(name)) is not None]


def _link_hashes(definitions: Definitions, group: TaskGroup | None, target: str) -> list[str]:
    """What leads from the pages of one group to another: a text for each link, of all it says."""
    return [
        _hash("link", group.name, data_def.block, definition_hash(link))
        for data_def in _group_data_defs(definitions, group)
        for link in data_def.links
        if group is not None and (link.group or group.name) == target
    ]


def _upstream_groups(name: str, feeders: Mapping[str, Iterable[str]]) -> frozenset[str]:
    found: set[str] = set()
    todo = [name]
    while todo:
        for feeder in feeders[todo.pop()]:
            if feeder not in found:
                found.add(feeder)
                todo.append(feeder)
    return frozenset(found)


def _hash(*parts: Any) -> str:
    """32 hex digits."""
    return hashlib.blake2b(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()
