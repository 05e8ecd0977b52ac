"""Checks the fields that plugin code converts or fills."""

from crawl_engine.defs.language.keys import STEP_EXCLUDES, data_def_of, iter_all_tasks
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import Entry, YamlNode
from crawl_engine.errors import suggest
from crawl_engine.plugins.catalog import Catalog


def check(root: YamlNode, catalog: Catalog, problems: Problems) -> None:
    """Checks `convert` and `fromStep` of all fields."""
    filled = {data_def_of(task) for _, _, task in iter_all_tasks(root) if task.node.get("steps")}
    for name, data_def in root.entries_of("dataDefs"):
        for _, field in data_def.node.entries_of("fields"):
            _check_field(field, catalog, problems)
            if field.node.is_true("fromStep") and name not in filled:
                place = field.node.key_place("fromStep")
                message = f"no task of '{name}' has `steps` of its own: nothing fills this field"
                problems.warn(place, "no-effect", message)


def _check_field(field: Entry, catalog: Catalog, problems: Problems) -> None:
    node = field.node
    convert = node.get("convert")
    for part in [] if convert is None else (convert.items or [convert]):
        if part.kind == "scalar" and part.text.strip():
            _check_converter(part, catalog, problems)
    if convert is not None and "fields" in node.entries:
        problems.add(node.key_place("convert"), "conflict", "`convert` has no effect with `fields`; keep one")
    if node.is_true("fromStep"):
        for key in STEP_EXCLUDES:
            if key in node.entries:
                message = f"`{key}` has no effect with `fromStep`: a step fills the field; keep one"
                problems.add(node.key_place(key), "conflict", message)
    for _, inner in node.entries_of("fields"):
        if inner.node.is_true("fromStep"):
            message = "a nested field cannot have `fromStep`: a step fills the field around it"
            problems.add(inner.node.key_place("fromStep"), "conflict", message)
        else:
            _check_field(inner, catalog, problems)


def _check_converter(node: YamlNode, catalog: Catalog, problems: Problems) -> None:
    plugin_class = catalog.find(node.text)
    if plugin_class is None:
        message = f"unknown converter '{node.text}'{suggest(node.text, catalog.names('converter'))}"
        problems.add(node.place, "unknown-converter", message)
        return
    problem = plugin_class.problem_as("converter") or plugin_class.problem_of_options(())
    if problem is not None:
        problems.add(node.place, "bad-converter", plugin_class.describe(problem))
