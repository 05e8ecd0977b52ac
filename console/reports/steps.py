"""Lists the steps of the tasks of defs, and the classes that defs may name. Runs no users' code."""

import shlex
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import orjson
from msgspec import Struct

from engine.defs.builders.steps import (
    COMMAND,
    DATA_CONVERTER,
    LOCATOR_CREATOR,
    PARSERS,
    RECORD_DEFAULT,
    SUMMARIES,
    default_chain,
)
from engine.model.axis import AxisTable
from engine.model.definition import Definitions, Task
from engine.model.output_type import OUTPUT_TYPES
from engine.model.step import ChainStep
from engine.plugins.catalog import Catalog, build_catalog
from engine.plugins.plugin_class import METHODS, PluginClass

_BUILT_IN, _PYTHON, _ANY = "built-in", "Python", "any"
_SENDER_SUMMARIES = {"http": "Posts rows to a URL.", "command": "Writes rows into a program, one JSON line each."}
_UNKNOWN_KIND = "unknown"
"""Of a class whose source does not show its methods: they are inherited, or the source cannot be read."""


class ListedStep(NamedTuple):
    """A step of a task, and where its class is."""

    step: ChainStep
    origin: str
    depth: int
    """0 in the main line; on a side branch one more than the step before it."""


class TaskSteps(Struct, frozen=True, kw_only=True):
    """The steps of a task: the main line, each side branch after the step it begins at."""

    group: str
    task: str
    data_def: str
    steps: tuple[ListedStep, ...]

    @property
    def name(self) -> str:
        """`GROUP/TASK`."""
        return f"{self.group}/{self.task}"


class ListedClass(NamedTuple):
    """A class that defs may name. The fields and their order are the keys of `steps --available --json`."""

    name: str
    kind: str
    origin: str
    language: str
    summary: str


def list_tasks(definitions: Definitions) -> list[TaskSteps]:
    """The tasks of all groups with their steps."""
    catalog = build_catalog(definitions.plugins)
    return [
        TaskSteps(
            group=group.name,
            task=task.name,
            data_def=task.data_def,
            steps=tuple(_place(step, depth, catalog) for step, depth in _in_order(_chain_of(task, definitions))),
        )
        for group in definitions.task_groups
        for task in group.tasks
    ]


def list_classes(catalog: Catalog) -> list[ListedClass]:
    """Built-in classes, those of the project's plugins, and installed ones; a class of two kinds comes twice."""
    built_in = [
        ListedClass(name, _BUILT_IN, _BUILT_IN, _ANY if name == COMMAND else _PYTHON, summary)
        for name, summary in SUMMARIES.items()
    ]
    outputs = [ListedClass(name, "appender", _BUILT_IN, _PYTHON, _output_summary(name)) for name in OUTPUT_TYPES]
    outputs += [ListedClass(name, "appender", _BUILT_IN, _ANY, text) for name, text in _SENDER_SUMMARIES.items()]
    return [*built_in, *outputs, *(entry for plugin in catalog.all() for entry in _plugin_entries(plugin))]


def task_lines(tasks: Sequence[TaskSteps]) -> Iterator[str]:
    """A line a task, and one for each of its steps; not yet cleaned."""
    for task in tasks:
        yield f"{task.name} (dataDef {task.data_def})"
        rows = [
            ("  " * depth + step.name, step.class_name, step.kind, origin, _details(step))
            for step, origin, depth in task.steps
        ]
        yield from (f"  {line}" for line in _align(rows))


def class_lines(classes: Sequence[ListedClass]) -> Iterator[str]:
    """A heading, and a line a class; not yet cleaned."""
    rows = [(entry.name, entry.kind, entry.origin, entry.language, entry.summary) for entry in classes]
    yield from _align([("NAME", "KIND", "ORIGIN", "LANGUAGE", "WHAT IT DOES"), *rows])


def task_as_dict(task: TaskSteps) -> dict[str, Any]:
    """A task as `steps --json` prints it; the names are stable."""
    return {
        "group": task.group,
        "task": task.task,
        "data_def": task.data_def,
        "steps": [
            {
                "name": step.name, "class": step.class_name, "kind": step.kind, "origin": origin,
                "options": dict(step.options), "run": list(step.run), "limit": step.limit, "workers": step.workers,
                "previous": step.previous or None,
            }
            for step, origin, _ in task.steps
        ],
    }  # fmt: skip


def _chain_of(task: Task, definitions: Definitions) -> Sequence[ChainStep]:
    data_def = definitions.data_def(task.data_def)
    if not task.chain and data_def is not None and data_def.axis is not None:
        return _chain_of_table(data_def.axis)
    return task.chain or default_chain(task.steps if task.steps in PARSERS else RECORD_DEFAULT)


def _chain_of_table(table: AxisTable) -> list[ChainStep]:
    """The steps that the plan of a table stands for."""
    *steps, appender = default_chain("htmlUnitDefault" if table.flavour == "xpath" else "jsoupDefault")
    if table.converters:
        steps.append(ChainStep(name="converter", class_name=DATA_CONVERTER))
    if table.makes_links:
        return [*steps, ChainStep(name="locators", class_name=LOCATOR_CREATOR, previous=steps[-1].name)]
    return [*steps, appender]


def _in_order(chain: Sequence[ChainStep], previous: str = "", depth: int = 0) -> Iterator[tuple[ChainStep, int]]:
    for step in chain:
        if step.previous == previous:
            yield step, depth
            yield from _in_order(chain, step.name, depth + 1)


def _place(step: ChainStep, depth: int, catalog: Catalog) -> ListedStep:
    plugin = catalog.find(step.class_name) if step.kind not in (_BUILT_IN, COMMAND) else None
    return ListedStep(step, _origin(plugin) if plugin is not None else _BUILT_IN, depth)


def _origin(plugin: PluginClass) -> str:
    """`plugins/shop.py:12`, or the distribution and its version."""
    return plugin.origin if plugin.group else f"{plugin.origin}:{plugin.line}"


def _plugin_entries(plugin: PluginClass) -> Iterator[ListedClass]:
    methods = plugin.scanned.methods if plugin.scanned is not None else {}
    has_own_method = any(method in methods for method, _ in METHODS.values())
    kinds: Sequence[str] = plugin.kinds if has_own_method or len(plugin.kinds) == 1 else (_UNKNOWN_KIND,)
    summary = plugin.scanned.summary if plugin.scanned is not None else ""
    for kind in kinds:
        yield ListedClass(plugin.name, kind, _origin(plugin), _PYTHON, summary)


def _output_summary(name: str) -> str:
    """What the first line of its module says after the name."""
    documentation = import_module(f"engine.append.formats.{name}").__doc__ or ""
    summary = documentation.partition("\n")[0].rpartition("`: ")[2]
    return summary[:1].upper() + summary[1:]


def _details(step: ChainStep) -> str:
    details = [
        f"options {orjson.dumps(dict(step.options)).decode()}" if step.options else "",
        f"run {shlex.join(step.run)}" if step.run else "",
        f"limit {step.limit:g} s" if step.limit is not None else "",
        f"workers {step.workers}" if step.workers > 1 else "",
    ]
    return "  ".join(detail for detail in details if detail)


def _align(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines with all columns but the last padded."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for *cells, last in rows:
        yield "  ".join([*(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)), last]).rstrip()
