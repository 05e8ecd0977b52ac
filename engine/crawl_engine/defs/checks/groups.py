"""Checks that the tasks of a group have one loader: a page is fetched once for all of them."""

from typing import Any

from crawl_engine.defs.builders.chains import Chains
from crawl_engine.defs.language.keys import iter_tasks
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.model.step import ChainStep

_BUILT_IN = "the built-in loader"


def check(root: YamlNode, chains: Chains, problems: Problems) -> None:
    """Report each task whose loader differs from the loader of the group's first task."""
    for group, entry in root.entries_of("taskGroups"):
        first: tuple[str, ChainStep | None] | None = None
        for task, task_entry in iter_tasks(entry.node):
            if (group, task) not in chains:  # its steps have a problem of their own
                continue
            loader = next((step for step in chains[group, task] if step.kind == "loader"), None)
            if first is None:
                first = (task, loader)
            elif _meaning(loader) != _meaning(first[1]):
                node = task_entry.node
                place = node.key_place("steps") if "steps" in node.entries else task_entry.place
                problems.add(place, "loader-conflict", _describe(group, task, loader, *first))


def _meaning(step: ChainStep | None) -> tuple[Any, ...]:
    """What must be equal; the step's name may differ."""
    return () if step is None else (step.class_name, dict(step.options), step.limit, step.workers)


def _describe(group: str, task: str, loader: ChainStep | None, first: str, first_loader: ChainStep | None) -> str:
    names = [_BUILT_IN if step is None else step.class_name for step in (loader, first_loader)]
    if names[0] == names[1]:
        names = [f"{name} with other options, limit or workers" for name in names[:1]] + names[1:]
    return (
        f"'{task}' is fetched by {names[0]}, '{first}' by {names[1]}: one fetch serves all tasks of '{group}'; "
        f"give them the same loader, or put '{task}' into a group of its own"
    )
