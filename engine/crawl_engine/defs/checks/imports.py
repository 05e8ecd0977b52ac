"""Checks that the plugin classes which defs name can be imported."""

from collections.abc import Iterator
from pathlib import Path

from crawl_engine.defs.builders.plugin_files import plugins_dir
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.defs.yaml.sources import format_display_path
from crawl_engine.model.definition import Definitions
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.plugins.catalog import build_catalog

_STEP_KINDS = ("loader", "parser", "step")


def check(root: YamlNode, definitions: Definitions, defs: Path, problems: Problems) -> None:
    """Imports the classes in a process of their own. Defs without classes cost nothing."""
    used = dict(_find_used(root, definitions))
    catalog = build_catalog(definitions.plugins)
    names = [name for name in used if catalog.find(name) is not None]
    if not names:
        return
    from crawl_engine.plugins.import_check import find_failures

    for failure in find_failures(catalog.files, names):
        place = used[failure.name]
        if failure.path is not None:
            shown = format_display_path(defs if defs.is_dir() else defs.parent, plugins_dir(defs) / failure.path)
            place = SourcePosition(shown, failure.line, 1)
        problems.add(place, "bad-import", f"{failure.name}: {failure.reason}", warning=failure.is_slow)


def _find_used(root: YamlNode, definitions: Definitions) -> Iterator[tuple[str, SourcePosition]]:
    """The names that may be classes, each with a place where the defs have it."""
    for task in (task for group in definitions.task_groups for task in group.tasks):
        yield from ((step.class_name, step.place) for step in task.chain if step.kind in _STEP_KINDS)
    for _, data_def in root.entries_of("dataDefs"):
        yield from _find_converters(data_def.node)
    for _, host in root.entries_of("hosts"):
        yield from _texts(host.node.get("middleware"))
    for appender in definitions.appenders:
        if appender.kind in ("encoder", "appender"):
            yield appender.type, appender.place


def _find_converters(node: YamlNode) -> Iterator[tuple[str, SourcePosition]]:
    for _, field in node.entries_of("fields"):
        yield from _texts(field.node.get("convert"))
        yield from _find_converters(field.node)


def _texts(node: YamlNode | None) -> Iterator[tuple[str, SourcePosition]]:
    """The texts of a text or a list."""
    for part in [] if node is None else (node.items or [node]):
        if part.kind == "scalar":
            yield part.text, part.place
