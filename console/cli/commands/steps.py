"""The command `steps`: shows the steps of the tasks of defs, and the classes that defs may name."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from console.cli.options import common_options, defs_option, load_settings_of
from console.cli.output import write_lines, write_stderr
from console.sanitize import clean
from engine.errors import UsageError, suggest

if TYPE_CHECKING:
    from console.reports.steps import TaskSteps
    from engine.settings import Settings


@click.command()
@click.argument("task", required=False)
@click.option("--available", is_flag=True, help="List the classes that defs may name instead.")
@defs_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on one line.")
@common_options
def steps(
    task: str | None,
    available: bool,
    defs: Path,
    as_json: bool,
    data: Path,  # noqa: ARG001
    assign: Sequence[str],
) -> int:
    """Show the steps of each task, or of TASK: a name, or GROUP/TASK. Runs none of your code."""
    settings, _ = load_settings_of(defs, assign)
    if available:
        if task is not None:
            raise UsageError("--available lists classes, not the steps of a task", "Leave out TASK, or --available.")
        _print_classes(defs, as_json=as_json)
    else:
        _print_tasks(defs, task, settings, as_json=as_json)
    return 0


def _print_tasks(defs: Path, task: str | None, settings: "Settings", *, as_json: bool) -> None:
    import orjson

    from console.reports.steps import list_tasks, task_as_dict, task_lines
    from engine.defs.builders.table_settings import complete_tables
    from engine.defs.loader import load

    loaded = load(defs, settings.default_steps, keep_documents=settings.documents)
    for warning in loaded.warnings:
        write_stderr(str(warning))
    tasks = list_tasks(complete_tables(loaded.definitions, settings))
    if task is not None:
        tasks = _select(tasks, task)
    if as_json:
        write_lines([orjson.dumps({"tasks": [task_as_dict(task) for task in tasks]}).decode()])
        return
    write_lines(map(clean, task_lines(tasks)))
    if not tasks:
        write_stderr("the defs have no tasks")


def _select(tasks: "Sequence[TaskSteps]", text: str) -> "list[TaskSteps]":
    """The tasks of that name, in any group. Raises UsageError."""
    chosen = [task for task in tasks if text in (task.task, task.name)]
    if not chosen:
        names = sorted({task.task for task in tasks} | {task.name for task in tasks})
        raise UsageError(f"unknown task '{text}'{suggest(text, names)}", "`crawl-console steps` lists all tasks.")
    return chosen


def _print_classes(defs: Path, *, as_json: bool) -> None:
    """Print what can be read; problems of plugin files go to stderr, those of the YAML do not matter here."""
    import orjson

    from console.reports.steps import class_lines, list_classes
    from engine.defs.builders import plugin_files
    from engine.defs.problems import Problems
    from engine.plugins.catalog import build_catalog

    problems = Problems()
    files = plugin_files.read(defs, problems) if defs.exists() else ()
    plugin_files.check(files, defs, problems)
    for problem in sorted(problems.in_file_order(()), key=lambda problem: problem.file):
        write_stderr(str(problem))
    if not defs.exists():
        write_stderr(f"{defs}: no such file or directory; the classes of its plugins are not listed")
    classes = list_classes(build_catalog(files))
    if as_json:
        write_lines([orjson.dumps({"classes": [entry._asdict() for entry in classes]}).decode()])
    else:
        write_lines(map(clean, class_lines(classes)))
