"""The command `steps`: shows the steps of tasks, and the classes that defs may name."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import orjson

from crawl_console.cli.commands import INSTALLED_COMMANDS
from crawl_console.cli.options import (
    arguments_option,
    common_options,
    defs_option,
    load_defs,
    load_settings_of,
    object_option,
)
from crawl_console.cli.output import write_json, write_lines, write_stderr
from crawl_console.format import align_columns
from crawl_engine.defs.builders.steps import (
    COMMAND,
    DATA_CONVERTER,
    LOCATOR_CREATOR,
    PARSERS,
    RECORD_DEFAULT,
    SUMMARIES,
    default_chain,
)
from crawl_engine.errors import UsageError, suggest
from crawl_engine.extract.documents.document_types import DOCUMENT_TYPES
from crawl_engine.installed import SCREENS, list_installed
from crawl_engine.model.axis import AxisTable
from crawl_engine.model.definition import Definitions, Task
from crawl_engine.model.field_type import FIELD_TYPES
from crawl_engine.model.output_type import OUTPUT_TYPES, SENDER_TYPES
from crawl_engine.model.step import ChainStep
from crawl_engine.plugins.catalog import Catalog, build_catalog
from crawl_engine.plugins.plugin_class import METHODS, PluginClass

_BUILT_IN, _PYTHON, _ANY = "built-in", "Python", "any"
_UNKNOWN_KIND = "unknown"
"""The kind of a class whose source shows no methods: they are inherited, or the source is unreadable."""


@click.command()
@click.argument("task", required=False)
@click.option("--available", is_flag=True, help="List the classes that defs may name instead.")
@defs_option
@arguments_option
@object_option
@common_options("assigned")
def steps(
    task: str | None, available: bool, defs: Path, as_json: bool, assigned: dict[str, str], arguments: dict[str, str]
) -> int:  # fmt: skip
    """Show the steps of each task, or of TASK: a name, or GROUP/TASK. Runs none of your code."""
    from crawl_engine.defs.builders.table_settings import complete_tables

    if available:
        load_settings_of(defs, assigned)  # raises UsageError
        if task is not None:
            raise UsageError("--available lists classes, not the steps of a task", "Leave out TASK, or --available.")
        classes = _list_classes(_read_catalog(defs))
        if as_json:
            write_json({"classes": [entry._asdict() for entry in classes]})
        else:
            rows = [(entry.name, entry.kind, entry.origin, entry.language, entry.summary) for entry in classes]
            write_lines(*align_columns([("NAME", "KIND", "ORIGIN", "LANGUAGE", "WHAT IT DOES"), *rows]))
        return 0
    tasks = _list_tasks(complete_tables(*load_defs(defs, assigned, arguments)))
    if task is not None:
        tasks = _select(tasks, task)
    if as_json:
        write_json({"tasks": [_task_as_dict(task) for task in tasks]})
    else:
        write_lines(*(line for task in tasks for line in _task_lines(task)))
        if not tasks:
            write_stderr("the defs have no tasks")
    return 0


def _select(tasks: "Sequence[_TaskSteps]", text: str) -> "list[_TaskSteps]":
    """The tasks of that name, in any group. Raises UsageError."""
    chosen = [task for task in tasks if text in (task.task, task.name)]
    if not chosen:
        names = sorted({task.task for task in tasks} | {task.name for task in tasks})
        raise UsageError(f"unknown task '{text}'{suggest(text, names)}", "`crawl-console steps` lists all tasks.")
    return chosen


def _read_catalog(defs: Path) -> Catalog:
    """The plugins that can be read. Problems of their files go to stderr; the YAML is not read."""
    from crawl_engine.defs.builders import plugin_files
    from crawl_engine.defs.problems import Problems

    problems = Problems()
    files = plugin_files.read(defs, problems) if defs.exists() else ()
    plugin_files.check(files, defs, problems)
    write_stderr(*map(str, sorted(problems.in_file_order(()), key=lambda problem: problem.file)))
    if not defs.exists():
        write_stderr(f"{defs}: no such file or directory; the classes of its plugins are not listed")
    return build_catalog(files)


class _TaskSteps(NamedTuple):
    """The steps of a task: the main line, each side branch after its first step."""

    group: str
    task: str
    data_def: str
    steps: list[tuple[ChainStep, str, int]]
    """Each step, the place of its class, and its depth: 0 in the main line, 1 more on each side branch."""

    @property
    def name(self) -> str:
        return f"{self.group}/{self.task}"


class _ListedClass(NamedTuple):
    """A class that defs may name. The fields and their order are the keys of `steps --available --json`."""

    name: str
    kind: str
    origin: str
    language: str
    summary: str


def _list_tasks(definitions: Definitions) -> list[_TaskSteps]:
    catalog = build_catalog(definitions.plugins)

    def locate(step: ChainStep) -> str:
        plugin = catalog.find(step.class_name) if step.kind not in (_BUILT_IN, COMMAND) else None
        return _origin(plugin) if plugin is not None else _BUILT_IN

    return [
        _TaskSteps(
            group.name, task.name, task.data_def,
            [(step, locate(step), depth) for step, depth in _in_order(_chain_of(task, definitions))],
        )
        for group in definitions.task_groups
        for task in group.tasks
    ]  # fmt: skip


def _list_classes(catalog: Catalog) -> list[_ListedClass]:
    """Built-in classes, those of the project's plugins, and installed ones; a class of two kinds appears twice."""
    built_in = [
        _ListedClass(name, _BUILT_IN, _BUILT_IN, _ANY if name == COMMAND else _PYTHON, summary)
        for name, summary in SUMMARIES.items()
    ]
    for table in (OUTPUT_TYPES, DOCUMENT_TYPES, FIELD_TYPES, INSTALLED_COMMANDS):
        write_stderr(*table.conflicts())
    origins = dict(OUTPUT_TYPES.installed())
    outputs = [
        *(_output_entry(name, origins.get(name, _BUILT_IN)) for name in OUTPUT_TYPES),
        *(_ListedClass(name, "appender", _BUILT_IN, _ANY, summary) for name, summary in SENDER_TYPES.items()),
    ]
    others = [
        _ListedClass(name, kind, origin, _PYTHON, "")
        for kind, names in (
            ("document", DOCUMENT_TYPES.installed()),
            ("type", FIELD_TYPES.installed()),
            ("command", INSTALLED_COMMANDS.installed()),
            ("screen", list_installed(SCREENS)),
        )
        for name, origin in names
    ]
    return [*built_in, *outputs, *(entry for plugin in catalog.all() for entry in _plugin_entries(plugin)), *others]


def _output_entry(name: str, origin: str) -> _ListedClass:
    try:
        summary = OUTPUT_TYPES[name].summary
    except UsageError as error:  # of a package; the others can be listed
        summary = error.message
    return _ListedClass(name, "appender", origin, _PYTHON, summary)


def _task_lines(task: _TaskSteps) -> list[str]:
    rows = [
        ("  " * depth + step.name, step.class_name, step.kind, origin, _details(step))
        for step, origin, depth in task.steps
    ]
    return [f"{task.name} (dataDef {task.data_def})", *(f"  {line}" for line in align_columns(rows))]


def _task_as_dict(task: _TaskSteps) -> dict[str, Any]:
    return {
        "group": task.group, "task": task.task, "data_def": task.data_def,
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
    """The steps behind the plan of a table."""
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


def _origin(plugin: PluginClass) -> str:
    """`plugins/shop.py:12`, or the distribution and its version."""
    return plugin.origin if plugin.group else f"{plugin.origin}:{plugin.line}"


def _plugin_entries(plugin: PluginClass) -> Iterator[_ListedClass]:
    methods = plugin.scanned.methods if plugin.scanned is not None else {}
    has_own_method = any(method in methods for method, _ in METHODS.values())
    kinds: Sequence[str] = plugin.kinds if has_own_method or len(plugin.kinds) == 1 else (_UNKNOWN_KIND,)
    summary = plugin.scanned.summary if plugin.scanned is not None else ""
    for kind in kinds:
        yield _ListedClass(plugin.name, kind, _origin(plugin), _PYTHON, summary)


def _details(step: ChainStep) -> str:
    details = [
        f"options {orjson.dumps(dict(step.options)).decode()}" if step.options else "",
        f"run {shlex.join(step.run)}" if step.run else "",
        f"limit {step.limit:g} s" if step.limit is not None else "",
        f"workers {step.workers}" if step.workers > 1 else "",
    ]
    return "  ".join(detail for detail in details if detail)
