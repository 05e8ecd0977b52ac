"""Derives the steps of each group from the defs: content hashes and dependencies. Knows no database."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson
from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.defs.builders.steps import DATA_FILTER, KIND_RANKS, RANKS, RECORD_DEFAULT, STEP_SETS, default_chain
from crawl_engine.model.definition import DataDef, Definitions, Task, TaskGroup, definition_hash
from crawl_engine.model.locator import LocatorGroup
from crawl_engine.model.step import ChainStep
from crawl_engine.store.tables.run.checkpoints import join_key, resolve_dependency
from crawl_engine.supervise.outputs import appender_for_file, output_settings

StepRole = Literal["seeder", "loader", "parser", "filter", "step", "appender"]
SEEDER: Final = "seeder"
LOADER: Final = "loader"
PARSER: Final = "parser"
FILTER: Final = "filter"
OTHER_STEP: Final = "step"
APPENDER: Final = "appender"
_LOADER_RANK, _PARSER_RANK, _APPENDER_RANK = 1, 2, 4


STEP_INPUTS: Mapping[StepRole, str] = {
    SEEDER: "its locators", LOADER: "what it fetches", PARSER: "what it extracts", FILTER: "its filters",
    OTHER_STEP: "its code or options", APPENDER: "its outputs",
}  # fmt: skip
PAGE_STEPS = frozenset[StepRole]({LOADER, PARSER, FILTER, OTHER_STEP})
"""Steps whose change applies to later pages only: done pages keep their results."""
_LinkHashes = dict[str, list[str]]
"""By group: a hash for each link of its pages to one other group."""


class TaskStep(NamedTuple):
    """A step behind the loader."""

    step: ChainStep
    role: StepRole
    previous: str | None
    """The step of the task before it; None: the loader of the group."""


def list_task_steps(task: Task) -> list[TaskStep]:
    """The main line of a task's chain behind its loader, then the side branches."""
    steps, shared = [], set[str]()
    previous: str | None = None
    for step in _chain_of(task):
        rank = _rank(step)
        if step.previous:
            steps.append(TaskStep(step, _role(step, rank), None if step.previous in shared else step.previous))
        elif rank <= _LOADER_RANK:
            shared.add(step.name)
        else:
            steps.append(TaskStep(step, _role(step, rank), previous))
            previous = step.name
    return steps


def list_users_loaders(tasks: Iterable[Task]) -> list[ChainStep]:
    """The loaders of these tasks that are plugins."""
    return [step for task in tasks for step in task.chain if step.kind == "loader"]


def _chain_of(task: Task) -> Iterable[ChainStep]:
    name = task.steps or RECORD_DEFAULT
    return task.chain or default_chain(name if name in STEP_SETS else RECORD_DEFAULT)


def _rank(step: ChainStep) -> int:
    return RANKS[step.class_name] if step.kind == "built-in" else KIND_RANKS[step.kind]


def _role(step: ChainStep, rank: int) -> StepRole:
    if rank == _PARSER_RANK:
        return PARSER
    if rank == _APPENDER_RANK:
        return APPENDER
    return FILTER if step.class_name == DATA_FILTER else OTHER_STEP


class StepSpec(Struct, frozen=True, kw_only=True):
    """A step as the defs define it. `dependencies` and `position` as in `Checkpoint`."""

    name: str
    group: str
    task: str = ""
    """Empty: the step serves all tasks of the group."""
    role: StepRole
    content_hash: str
    dependencies: tuple[str, ...] = ()
    position: int = 0
    output: str = ""
    """Of an appender: the dataDef whose rows it writes; else empty."""

    @property
    def key(self) -> str:
        """GROUP/STEP, or GROUP/TASK/STEP."""
        return join_key(self.group, self.task, self.name)

    @property
    def dependency_keys(self) -> tuple[str, ...]:
        return tuple(resolve_dependency(self.group, self.task, name) for name in self.dependencies)


class StepGraph(Struct, frozen=True):
    """All steps of a set of defs, in the order of groups, tasks and steps."""

    steps: tuple[StepSpec, ...]
    upstream: Mapping[str, frozenset[str]]
    """By group: other groups whose pages may give it jobs, directly or through further groups."""


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
        fed = tuple(join_key(feeder, "", LOADER) for feeder in feeders[name])
        if name in located:
            content = seeder_hash(located[name], base_url)
            steps.append(StepSpec(name=SEEDER, group=name, role=SEEDER, content_hash=content))
            fed = (SEEDER, *fed)
        content = _loader_hash(definitions, links.get(name, {}), group)
        steps.append(StepSpec(name=LOADER, group=name, role=LOADER, content_hash=content, dependencies=fed, position=1))
        for task in group.tasks:
            steps.extend(_task_steps(definitions, name, task, output))
    return StepGraph(tuple(steps), {name: _upstream_groups(name, feeders) - {name} for name in names})


def find_dependents(changed: Iterable[str], dependencies: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """By key: steps that depend on a changed one, directly or through others, with that one's key."""
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


def _task_steps(definitions: Definitions, group: str, task: Task, output: Path | None) -> list[StepSpec]:
    """The steps of a task behind the loader of its group."""
    data_def = definitions.data_def(task.data_def)
    steps = []
    for position, part in enumerate(list_task_steps(task), 2):
        name = part.step.name
        steps.append(
            StepSpec(
                name=name, group=group, task=task.name, role=part.role, position=position,
                content_hash=_task_step_hash(definitions, task, data_def, part, output),
                dependencies=(LOADER if part.previous is None else _dependency(group, task.name, part.previous),),
                output=data_def.name if part.role == APPENDER and data_def is not None and data_def.fields else "",
            )
        )  # fmt: skip
    return steps


def _dependency(group: str, task: str, step: str) -> str:
    """The name of a step of the same task; its key if it would be read as another step."""
    return join_key(group, task, step) if step in (SEEDER, LOADER) or "/" in step else step


def _loader_hash(definitions: Definitions, links: _LinkHashes, group: TaskGroup) -> str:
    # delays and concurrency do not change the result of a fetch
    rules = sorted(
        (h.name, sorted(h.headers.items()), sorted(h.cookies.items()), h.robots, h.nofollow)
        + (() if h.private is None else (h.private,))
        for h in definitions.hosts
    )
    hashes = sorted(hash_ for of_group in links.values() for hash_ in of_group)
    code = [
        (definition_hash(_content(step)), task.loader_code)
        for task in group.tasks[:1]  # all tasks have equal loaders
        for step in list_users_loaders([task])
    ]
    return _hash(LOADER, hashes, group.max_depth, group.max_pages, rules, *code)


def _task_step_hash(
    definitions: Definitions, task: Task, data_def: DataDef | None, part: TaskStep, output: Path | None
) -> str:
    users = [definition_hash(_content(part.step)), task.code] if part.step.is_plugin else []
    match part.role:
        case "parser":
            return _hash(PARSER, data_def and definition_hash(replace(data_def, filters=())), *users)
        case "filter":
            return _hash(FILTER, [definition_hash(f) for f in data_def.filters] if data_def else [])
        case "appender":
            return _hash(APPENDER, *_outputs_content(definitions, data_def, output))
    return _hash(OTHER_STEP, definition_hash(_content(part.step)), *users)


def _content(step: ChainStep) -> ChainStep:
    """The parts of a step that affect rows."""
    return replace(step, name="", previous="", limit=None, workers=1)


def _outputs_content(definitions: Definitions, data_def: DataDef | None, output: Path | None) -> tuple[Any, Any]:
    if data_def is None or not data_def.fields:
        return [], None
    appenders = [appender_for_file(output)] if output else definitions.appenders_of(data_def.name)
    outputs = [(a.name, a.type, a.path, data_def.name, output_settings(data_def, a)) for a in appenders]
    return outputs, str(output.absolute()) if output else None


def _group_data_defs(definitions: Definitions, group: TaskGroup) -> list[DataDef]:
    """The dataDefs of a group's tasks, without duplicates."""
    names = dict.fromkeys(task.data_def for task in group.tasks)
    return [data_def for name in names if (data_def := definitions.data_def(name)) is not None]


def _links_by_target(definitions: Definitions, groups: Iterable[TaskGroup]) -> dict[str, _LinkHashes]:
    """The links into each group."""
    links: dict[str, _LinkHashes] = {}
    for group in groups:
        for data_def in _group_data_defs(definitions, group):
            for link in data_def.links:
                hash_ = _hash("link", group.name, definition_hash([data_def.block, data_def.sources, link]))
                links.setdefault(link.group or group.name, {}).setdefault(group.name, []).append(hash_)
    for located in definitions.locator_groups:
        for rules in [locator.sitemap_rules for locator in located.locators if locator.sitemap_rules is not None]:
            for sitemap_link in rules.links:
                target = sitemap_link.group or located.name
                if target != located.name:  # a group depends on its own seeder anyway
                    hash_ = _hash("sitemap", located.name, definition_hash(rules))
                    links.setdefault(target, {}).setdefault(located.name, []).append(hash_)
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
