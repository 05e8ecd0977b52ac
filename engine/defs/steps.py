"""The built-in step sets, and checks of user-defined ones."""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from engine.defs.problems import Problems
from engine.defs.redaction import shown_key
from engine.defs.yaml_node import Entry, YamlNode
from engine.errors import suggest

RECORD_DEFAULT = "recordDefault"
_DEFAULT_STEPS = ("seeder", "loader", "parser", "filter", "appender")
STEP_SETS: Mapping[str, tuple[str, ...]] = {
    RECORD_DEFAULT: _DEFAULT_STEPS,
    "jsoupDefault": _DEFAULT_STEPS,
    "htmlUnitDefault": _DEFAULT_STEPS,
}
"""The built-in step sets: name → steps in order."""

LOCATOR_CREATOR = "LocatorCreator"
_JAVA_PREFIX = "org.codetab.scoopi.step."
_CLASS_ALIASES = {
    _JAVA_PREFIX + "extract.LocatorSeeder": "LocatorSeeder",
    _JAVA_PREFIX + "extract.PageLoader": "PageLoader",
    _JAVA_PREFIX + "parse.jsoup.Parser": "JsoupParser",
    _JAVA_PREFIX + "parse.htmlunit.Parser": "HtmlUnitParser",
    _JAVA_PREFIX + "process.DataFilter": "DataFilter",
    _JAVA_PREFIX + "process.DataConverter": "DataConverter",
    _JAVA_PREFIX + "process.LocatorCreator": LOCATOR_CREATOR,
    _JAVA_PREFIX + "load.DataAppender": "DataAppender",
}
STEP_CLASSES = frozenset({*_CLASS_ALIASES.values(), "RecordParser"})
"""The short names of all step classes."""

_STEP_KEYS = ("class", "previous", "next", "plugins")


def check(root: YamlNode, problems: Problems) -> None:
    """Checks the user's step sets, and the step sets and overrides of tasks."""
    custom = dict(root.entries_of("steps"))
    for name, entry in custom.items():
        problems.add(entry.place, "not-built", f"'{name}': custom step sets are not implemented yet; remove it")
        bases = [base for base in STEP_SETS if entry.node.get(base) is not None]
        if bases and set(entry.node.entries) == set(bases):  # a set that changes built-in ones
            for base in bases:
                _check_step_set(entry.node.entries[base], STEP_SETS[base], problems)
        else:
            _check_step_set(entry, (), problems)
    names = sorted({*STEP_SETS, *custom})
    for _, group in root.entries_of("taskGroups"):
        for task in group.node.entries.values():
            _check_task_steps(task.node, custom, names, problems)


def _check_task_steps(task: YamlNode, custom: Mapping[str, Entry], names: list[str], problems: Problems) -> None:
    chosen = task.get("steps")
    if chosen is None:
        if "steps" in task.entries:
            problems.add(task.key_place("steps"), "wrong-type", "`steps` must be the name of a step set, not nothing")
    elif chosen.kind == "list":
        problems.add(chosen.place, "wrong-type", "`steps` must be the name of a step set, not a list")
    elif chosen.kind == "scalar":
        if chosen.text not in names:
            message = f"unknown step set '{chosen.text}'{suggest(chosen.text, names)}"
            problems.add(chosen.place, "unknown-steps", message)
    else:
        for name, override in chosen.entries.items():
            problems.add(override.place, "not-built", "changing steps for one task is not implemented yet; remove it")
            if name not in names:
                problems.add(override.place, "unknown-steps", f"unknown step set '{name}'{suggest(name, names)}")
            base = STEP_SETS.get(name) or (custom[name].node.entries if name in custom else ())
            _check_step_set(override, base, problems)


def _check_step_set(entry: Entry, base: Iterable[str], problems: Problems) -> None:
    """Checks one step set, or an override of a set with the steps `base`."""
    if entry.node.kind != "mapping":
        problems.add(entry.place, "wrong-type", f"a step set must be a mapping of steps, not {entry.node.describe()}")
        return
    steps = entry.node.entries
    order = list(base)
    names = {*order, *steps}
    following: dict[str, set[str]] = {name: set() for name in names}
    for name, next_name in pairwise(order):
        following[name].add(next_name)
    for name, step in steps.items():
        _check_step(step, names, problems)
        previous, following_step = step.node.text_of("previous"), step.node.text_of("next")
        if previous in following:
            following[previous].add(name)
        ends_branch = (
            following_step == "seeder" and _short_class_name(step.node.text_of("class") or "") == LOCATOR_CREATOR
        )
        if following_step in following and not ends_branch:
            following[name].add(following_step)
    for name, step in steps.items():
        if _is_in_cycle(name, following):
            place = step.node.get("next")
            message = f"the steps after '{name}' lead back to it; set `next: end` on the last of them"
            problems.add(place.place if place else step.place, "step-cycle", message)


def _check_step(step: Entry, names: set[str], problems: Problems) -> None:
    if step.node.kind != "mapping":
        problems.add(step.place, "wrong-type", f"a step must be a mapping, not {step.node.describe()}")
        return
    for key, entry in step.node.entries.items():
        if key not in _STEP_KEYS:
            message = f"unknown key '{shown_key(key)}' in a step{suggest(key, list(_STEP_KEYS))}"
            problems.add(entry.place, "unknown-key", message)
    for key in ("class", "previous", "next"):
        node = step.node.get(key)
        if node is None:
            problems.add(step.place, "missing-key", f"the key `{key}` is missing")
        elif node.kind != "scalar":
            problems.add(node.place, "wrong-type", f"`{key}` must be a text, not {node.describe()}")
        elif key == "class" and _short_class_name(node.text) not in STEP_CLASSES:
            message = f"unknown step class '{node.text}'{suggest(node.text, sorted(STEP_CLASSES))}"
            problems.add(node.place, "unknown-step-class", message)
        elif key != "class" and node.text not in names | {"start" if key == "previous" else "end", "seeder"}:
            message = f"unknown step '{node.text}' in this set{suggest(node.text, sorted(names))}"
            problems.add(node.place, "unknown-step", message)


def _is_in_cycle(name: str, following: Mapping[str, set[str]]) -> bool:
    seen: set[str] = set()
    todo = [name]
    while todo:
        for after in following[todo.pop()] - seen:
            if after == name:
                return True
            seen.add(after)
            todo.append(after)
    return False


def _short_class_name(name: str) -> str:
    return _CLASS_ALIASES.get(name, name)
