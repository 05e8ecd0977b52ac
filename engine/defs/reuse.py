"""Checks the keys of task groups by which later jobs reuse stored pages and rows."""

from engine.defs.problems import Problems
from engine.defs.references import iter_tasks
from engine.defs.yaml_node import YamlNode
from engine.model.definition import Definitions
from engine.model.row_reuse import list_volatile_variables

_REUSING_KEYS = ("live", "revalidate")


def check(root: YamlNode, problems: Problems, *, keep_documents: bool) -> None:
    """Checks that a group without documents reuses none. `keep_documents`: of groups that do not say."""
    for name, group in root.entries_of("taskGroups"):
        documents = group.node.get("documents")
        if (keep_documents if documents is None else documents.value()) is not False:
            continue
        if documents is None:
            cause, remedy = "the setting `documents = false`", f"remove it, or write `documents: true` in '{name}'"
        else:
            cause, remedy = "`documents: false`", f"remove it, or `documents: false` of '{name}'"
        for key in _REUSING_KEYS:
            entry = group.node.entries.get(key)
            if entry is not None and entry.node.value() is not False:
                message = f"`{key}` reuses stored pages, and {cause} deletes them at the end of the run"
                problems.add(entry.place, "conflict", f"{message}; {remedy}")
        for _, task in iter_tasks(group.node):
            persist = task.node.get("persist")
            data = persist.get("data") if persist is not None else None
            if data is not None and data.value() is True:
                message = f"`persist` copies the rows of stored pages, and {cause} deletes the pages"
                problems.add(task.node.key_place("persist"), "conflict", f"{message}; {remedy}")


def warn_of_volatile_rows(definitions: Definitions, root: YamlNode, problems: Problems) -> None:
    """Warn of tasks whose `persist` has no effect, because their rows depend on more than the document."""
    groups = dict(root.entries_of("taskGroups"))
    for group in definitions.task_groups:
        for task in group.tasks:
            data_def = definitions.data_def(task.data_def) if task.copy_rows else None
            if data_def is None:
                continue
            names = list_volatile_variables(data_def)
            reason = f"`%{{{names[0]}}}` of '{task.data_def}' differs between jobs" if names else ""
            if task.chain or data_def.code:
                reason = "rows that go through code of your own are extracted again"
            if reason:
                place = groups[group.name].node.entries[task.name].node.key_place("persist")
                message = f"`persist` has no effect: {reason}"
                problems.warn(place, "no-effect", message)
