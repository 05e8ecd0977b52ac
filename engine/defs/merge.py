"""Merges the YAML trees of all files: a later definition of a name replaces an earlier one."""

from engine.defs.language import keys_of
from engine.defs.problems import Problems
from engine.defs.redaction import describe_value, shown_host, shown_key
from engine.defs.yaml_node import Entry, YamlNode
from engine.errors import suggest
from engine.model.definition import Definitions
from engine.model.stored_form import SourcePosition

SECTIONS = tuple(keys_of(Definitions))
_SCALAR_KEYS = frozenset({"baseUrl"})


def merge(roots: list[YamlNode], place: SourcePosition, problems: Problems) -> YamlNode:
    """The merged mapping of sections. The last file that defines a name wins. `place` is the mapping's own."""
    merged = YamlNode("mapping", place)
    for root in roots:
        if root.is_null:
            continue
        if root.kind != "mapping":
            message = f"a def file must be a mapping of {', '.join(SECTIONS)}, not {root.describe()}"
            problems.add(root.place, "wrong-type", message)
            continue
        for key, entry in root.entries.items():
            if key not in SECTIONS:
                message = f"unknown key '{shown_key(key)}'{suggest(key, [*SECTIONS])}"
                problems.add(entry.place, "unknown-key", message)
            elif key in _SCALAR_KEYS:
                _replace_entry(merged, key, entry, problems)
            elif entry.node.kind == "mapping":
                section = merged.entries.setdefault(key, Entry(entry.place, YamlNode("mapping", entry.node.place)))
                for name, part in entry.node.entries.items():
                    _replace_entry(section.node, name, part, problems, is_host=key == "hosts")
            elif not entry.node.is_null:
                message = f"`{key}` must be a mapping of names, not {describe_value(entry.node, (key,))}"
                problems.add(entry.node.place, "wrong-type", message)
    return merged


def _replace_entry(into: YamlNode, name: str, entry: Entry, problems: Problems, *, is_host: bool = False) -> None:
    previous = into.entries.pop(name, None)
    if previous is not None:
        problems.warn(
            entry.place,
            "replaced",
            f"'{shown_host(name) if is_host else name}' replaces the definition at {previous.place}",
        )
    into.entries[name] = entry
