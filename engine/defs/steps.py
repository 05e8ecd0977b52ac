"""Step sets: the built-in ones, and whether written ones hold together. Runs no step and loads no plugin."""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from engine.defs.problems import Problems
from engine.defs.yaml_node import Entry, YamlNode
from engine.errors import suggest

RECORD_DEFAULT = "recordDefault"
_DEFAULT_STEPS = ("seeder", "loader", "parser", "filter", "appender")
STEP_SETS: Mapping[str, tuple[str, ...]] = {
    RECORD_DEFAULT: _DEFAULT_STEPS,
    "jsoupDefault": _DEFAULT_STEPS,
    "htmlUnitDefault": _DEFAULT_STEPS,
}
"""The built-in step sets: name → steps in their order."""

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
"""The short names of the step classes that exist."""

_STEP_KEYS = ("class", "previous", "next", "plugins")


def check(root: YamlNode, problems: Problems) -> None:
    """The written step sets, the tasks' choices among them, and their overrides."""
    own = dict(root.entries_of("steps"))
    for name, entry in own.items():
        problems.add(entry.place, "not-built", f"'{name}': a step set of your own is not built yet; leave it out")
        _check_step_set(entry, (), problems)
    known = sorted({*STEP_SETS, *own})
    for _, group in root.entries_of("taskGroups"):
        for task in group.node.entries.values():
            _check_task_steps(task.node, own, known, problems)


def _check_task_steps(task: YamlNode, own: Mapping[str, Entry], known: list[str], problems: Problems) -> None:
    chosen = task.get("steps")
    if chosen is None:
        if "steps" in task.entries:
            problems.add(task.key_place("steps"), "wrong-type", "`steps` must be the name of a step set, not nothing")
    elif chosen.kind == "list":
        problems.add(chosen.place, "wrong-type", "`steps` must be the name of a step set, not a list")
    elif chosen.kind == "scalar":
        if chosen.text not in known:
            message = f"there is no step set '{chosen.text}'{suggest(chosen.text, known)}"
            problems.add(chosen.place, "unknown-steps", message)
    else:
        for name, override in chosen.entries.items():
            problems.add(override.place, "not-built", "changing steps for one task is not built yet; leave it out")
            if name not in known:
                problems.add(override.place, "unknown-steps", f"there is no step set '{name}'{suggest(name, known)}")
            base = STEP_SETS.get(name) or (own[name].node.entries if name in own else ())
            _check_step_set(override, base, problems)


def _check_step_set(entry: Entry, base: Iterable[str], problems: Problems) -> None:
    """One set, or the override of one whose steps are `base`."""
    if entry.node.kind != "mapping":
        problems.add(entry.place, "wrong-type", f"a step set must be a mapping of steps, not {entry.node.describe()}")
        return
    steps = entry.node.entries
    order = list(base)
    known = {*order, *steps}
    following: dict[str, set[str]] = {name: set() for name in known}
    for name, after in pairwise(order):
        following[name].add(after)
    for name, step in steps.items():
        _check_step(step, known, problems)
        before, after_it = step.node.text_of("previous"), step.node.text_of("next")
        if before in following:
            following[before].add(name)
        ends_branch = after_it == "seeder" and _short_class_name(step.node.text_of("class") or "") == LOCATOR_CREATOR
        if after_it in following and not ends_branch:
            following[name].add(after_it)
    for name, step in steps.items():
        if _is_in_cycle(name, following):
            place = step.node.get("next")
            message = f"the steps after '{name}' lead back to it; let the last of them have `next: end`"
            problems.add(place.place if place else step.place, "step-cycle", message)


def _check_step(step: Entry, known: set[str], problems: Problems) -> None:
    if step.node.kind != "mapping":
        problems.add(step.place, "wrong-type", f"a step must be a mapping, not {step.node.describe()}")
        return
    for key, entry in step.node.entries.items():
        if key not in _STEP_KEYS:
            message = f"'{key}' is no key of a step{suggest(key, list(_STEP_KEYS))}"
            problems.add(entry.place, "unknown-key", message)
    for key in ("class", "previous", "next"):
        node = step.node.get(key)
        if node is None:
            problems.add(step.place, "missing-key", f"the key `{key}` is missing")
        elif node.kind != "scalar":
            problems.add(node.place, "wrong-type", f"`{key}` must be a text, not {node.describe()}")
        elif key == "class" and _short_class_name(node.text) not in STEP_CLASSES:
            message = f"there is no step class '{node.text}'{suggest(node.text, sorted(STEP_CLASSES))}"
            problems.add(node.place, "unknown-step-class", message)
        elif key != "class" and node.text not in known | {"start" if key == "previous" else "end", "seeder"}:
            message = f"there is no step '{node.text}' in this set{suggest(node.text, sorted(known))}"
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
