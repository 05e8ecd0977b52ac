"""Checks the keys of task groups by which later jobs reuse stored pages and rows."""

from collections.abc import Iterator

from engine.defs.problems import Problems
from engine.defs.references import iter_tasks
from engine.defs.yaml_node import YamlNode
from engine.errors import UsageError
from engine.model.definition import Definitions
from engine.model.locator import Recrawl
from engine.model.row_reuse import has_files, list_volatile_variables
from engine.model.stored_form import SourcePosition
from engine.setting_values import duration_seconds

_REUSING_KEYS = ("live", "revalidate", "recrawl")


def check(root: YamlNode, problems: Problems, *, keep_documents: bool) -> None:
    """Check that a group without documents reuses none. `keep_documents`: of groups that do not say.

    What the group itself says is refused; where the setting decides, its keys have no effect, which is a warning.
    """
    for name, group in root.entries_of("taskGroups"):
        _check_recrawl(group.node, problems)
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


def _check_recrawl(group: YamlNode, problems: Problems) -> None:
    recrawl = group.get("recrawl")
    if recrawl is None:
        return
    if "live" in group.entries:
        message = "`recrawl` says for each page how long it stays; remove `live`, or `recrawl`"
        problems.add(group.key_place("live"), "conflict", message)
    defaults = Recrawl()
    least, most = _read_seconds(recrawl, "min", defaults.min), _read_seconds(recrawl, "max", defaults.max)
    if least is not None and most is not None and least > most:
        place = recrawl.key_place("min" if "min" in recrawl.entries else "max")
        problems.add(place, "conflict", f"`min` ({least:g} s) is longer than `max` ({most:g} s); change one of them")


def _read_seconds(node: YamlNode, key: str, default: float) -> float | None:
    """The seconds of a duration; None where it is invalid, which is a problem of its own."""
    text = node.text_of(key)
    try:
        return default if text is None else duration_seconds(text)
    except UsageError:
        return None


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
            entry = groups[group.name].node.entries[task.name]
            data_def = definitions.data_def(task.data_def) if task.copy_rows else None
            if data_def is None or "persist" not in entry.node.entries:
                continue
            names = list_volatile_variables(data_def)
            reason = f"`%{{{names[0]}}}` of '{task.data_def}' differs between jobs" if names else ""
            if has_files(data_def):
                reason = f"'{task.data_def}' has fields of the type `file`, which each run downloads"
            if task.chain or data_def.code:
                reason = "rows that go through code of your own are extracted again"
            if reason:
                place = entry.node.key_place("persist")
                message = f"`persist` has no effect: {reason}"
                problems.warn(place, "no-effect", message)
