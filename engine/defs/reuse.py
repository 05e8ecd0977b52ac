"""Checks the keys of task groups by which later jobs reuse stored pages and rows."""

from collections.abc import Iterator

from engine.defs.problems import Problems
from engine.defs.references import iter_tasks
from engine.defs.yaml_node import YamlNode
from engine.model.definition import Definitions
from engine.model.row_reuse import has_files, list_volatile_variables
from engine.model.stored_form import SourcePosition

_REUSING_KEYS = ("live", "revalidate")


def check(root: YamlNode, problems: Problems, *, keep_documents: bool) -> None:
    """Check that a group without documents reuses none. `keep_documents`: of groups that do not say.

    What the group itself says is refused; where the setting decides, its keys have no effect, which is a warning.
    """
    for name, group in root.entries_of("taskGroups"):
        documents = group.node.get("documents")
        if (keep_documents if documents is None else documents.value()) is not False:
            continue
        by_group = documents is not None
        cause = "`documents: false`" if by_group else "the setting `documents = false`"
        for place, claim, what in _list_reusing_keys(group.node):
            message = f"{claim}, and {cause} deletes {what}"
            if by_group:
                problems.add(place, "conflict", f"{message}; remove it, or `documents: false` of '{name}'")
            else:
                problems.warn(place, "no-effect", f"{message}; write `documents: true` in '{name}' to keep them")


def _list_reusing_keys(group: YamlNode) -> Iterator[tuple[SourcePosition, str, str]]:
    """The keys by which a group reuses what is stored: place, what they do, and what they need."""
    for key in _REUSING_KEYS:
        entry = group.entries.get(key)
        if entry is not None and entry.node.value() is not False:
            yield entry.place, f"`{key}` reuses stored pages", "them at the end of the run"
    for _, task in iter_tasks(group):
        persist = task.node.get("persist")
        data = persist.get("data") if persist is not None else None
        if data is not None and data.value() is True:
            yield task.node.key_place("persist"), "`persist` copies the rows of stored pages", "the pages"


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
            if has_files(data_def):
                reason = f"'{task.data_def}' has fields of the type `file`, which each run downloads"
            if task.chain or data_def.code:
                reason = "rows that go through code of your own are extracted again"
            if reason:
                place = groups[group.name].node.entries[task.name].node.key_place("persist")
                message = f"`persist` has no effect: {reason}"
                problems.warn(place, "no-effect", message)
