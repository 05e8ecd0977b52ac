"""Builds YAML trees of definitions that are written by the program."""

from collections.abc import Mapping, Sequence

from engine.defs.yaml_node import Entry, YamlNode
from engine.model.stored_form import NO_POSITION

Part = str | bool | YamlNode | Mapping[str, "Part"] | Sequence["Part"]
"""A text, a bool, a written tree, or a mapping or list of such."""


def tree(part: Part) -> YamlNode:
    """The part as a tree; keys keep their order."""
    if isinstance(part, YamlNode):
        return part
    if isinstance(part, bool):
        return YamlNode("scalar", NO_POSITION, text=str(part).lower(), plain=True)
    if isinstance(part, str):
        return YamlNode("scalar", NO_POSITION, text=part)
    if isinstance(part, Mapping):
        return YamlNode("mapping", NO_POSITION, entries={key: Entry(NO_POSITION, tree(v)) for key, v in part.items()})
    return YamlNode("list", NO_POSITION, items=[tree(item) for item in part])


def without(node: YamlNode, *keys: str) -> YamlNode:
    """A mapping without some of its keys."""
    return YamlNode("mapping", node.place, entries={key: e for key, e in node.entries.items() if key not in keys})
