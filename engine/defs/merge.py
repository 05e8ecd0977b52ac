"""Merges the trees of all files into one: second-level names are replaced whole. Knows top-level keys only."""

from engine.defs.language import Defs
from engine.defs.problems import Problems
from engine.defs.yaml_node import Entry, YamlNode
from engine.errors import suggest
from engine.model.definition import SourcePosition

SECTIONS = tuple(field.alias or name for name, field in Defs.model_fields.items())
_SCALAR_KEYS = frozenset({"baseUrl"})


def merge(roots: list[YamlNode], whole: SourcePosition, problems: Problems) -> YamlNode:
    """One mapping of sections, each name in it as the last file wrote it. `whole` is its place."""
    merged = YamlNode("mapping", whole)
    for root in roots:
        if root.is_null:
            continue
        if root.kind != "mapping":
            message = f"a def file is a mapping of {', '.join(SECTIONS)}, not {root.describe()}"
            problems.add(root.place, "wrong-type", message)
            continue
        for key, entry in root.entries.items():
            if key not in SECTIONS:
                message = f"'{key}' is no key of the language{suggest(key, [*SECTIONS])}"
                problems.add(entry.place, "unknown-key", message)
            elif key in _SCALAR_KEYS:
                _replace_entry(merged, key, entry, problems)
            elif entry.node.kind == "mapping":
                section = merged.entries.setdefault(key, Entry(entry.place, YamlNode("mapping", entry.node.place)))
                for name, part in entry.node.entries.items():
                    _replace_entry(section.node, name, part, problems)
            elif not entry.node.is_null:
                message = f"`{key}` must be a mapping of names, not {entry.node.describe()}"
                problems.add(entry.node.place, "wrong-type", message)
    return merged


def _replace_entry(into: YamlNode, name: str, entry: Entry, problems: Problems) -> None:
    before = into.entries.pop(name, None)
    if before is not None:
        problems.warn(entry.place, "replaced", f"'{name}' replaces the one written at {before.place}")
    into.entries[name] = entry
