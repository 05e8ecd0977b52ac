"""Writes YAML trees as a person would: block style, with comments, and texts quoted only where they need it."""

import io
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml
from yaml.emitter import Emitter
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from engine.defs.yaml_node import YamlNode
from engine.model.stored_form import NO_POSITION

_INDENT = 2
_ENDLESS = 10**6
"""The width of a line: texts are not folded."""
_TAG = "tag:yaml.org,2002:"
_MAX_COMMENT = 110
"""Characters of a line, without its indent."""
Comments = Mapping[tuple[str, str], Sequence[str]]
"""By section and name: lines to write above it."""


class _Dumper(yaml.SafeDumper):
    """Indents lists in mappings."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - yaml's signature
        super().increase_indent(flow, False)


def write(root: YamlNode, sections: Iterable[str], head: Sequence[str], comments: Comments) -> str:
    """The text of a def file: a comment, then the sections that the root has, in the given order."""
    parts = ["".join(f"# {line}\n" for text in head for line in _wrap(text))]
    for section in sections:
        node = root.get(section)
        if node is None:
            continue
        if node.kind != "mapping":
            parts.append(_dump({section: node}))
            continue
        entries = []
        for name, entry in node.entries.items():
            lines = [line for text in comments.get((section, name), ()) for line in _wrap(text)]
            above = "".join(f"# {line}\n" for line in lines)
            entries.append(_indented(above + _dump({name: entry.node})))
        if entries:
            parts.append(f"{section}:\n" + "\n".join(entries))
    return "\n".join(part for part in parts if part)


def _dump(entries: Mapping[str, YamlNode]) -> str:
    pairs: list[tuple[Node, Node]] = [(_scalar(name), _node(node)) for name, node in entries.items()]
    text: str = yaml.serialize(
        MappingNode(f"{_TAG}map", pairs, flow_style=False), Dumper=_Dumper, width=_ENDLESS, allow_unicode=True
    )  # fmt: skip
    return text


def _node(node: YamlNode) -> Node:
    if node.kind == "mapping":
        pairs = [(_scalar(name), _node(entry.node)) for name, entry in node.entries.items()]
        return MappingNode(f"{_TAG}map", pairs, flow_style=not pairs)
    if node.kind == "list":
        return SequenceNode(f"{_TAG}seq", [_node(item) for item in node.items], flow_style=not node.items)
    if node.is_null:
        return ScalarNode(f"{_TAG}null", "null")
    if node.plain and not isinstance(node.value(), str):
        return ScalarNode(_resolve(node.text), node.text)
    return _scalar(node.text)


def _scalar(text: str) -> ScalarNode:
    """A text: unquoted where no reader takes it for something else, else in the quotes that need fewer escapes."""
    read = YamlNode("scalar", NO_POSITION, text=text, plain=True).value()
    is_plain = isinstance(read, str) and _resolve(text) == f"{_TAG}str" and _allows_plain(text)
    quotes = "'" if text.isprintable() and ("\\" in text or '"' in text) else '"'
    return ScalarNode(f"{_TAG}str", text, style=None if is_plain else quotes)


def _resolve(text: str) -> str:
    """The tag that YAML 1.1 gives an unquoted text."""
    resolver: Any = yaml.SafeDumper(io.StringIO())
    return str(resolver.resolve(ScalarNode, text, (True, False)))


def _allows_plain(text: str) -> bool:
    analysis = Emitter(io.StringIO(), allow_unicode=True).analyze_scalar(text)
    return text.isprintable() and bool(text) and analysis.allow_block_plain


def _indented(text: str) -> str:
    return re.sub(r"(?m)^(?=.)", " " * _INDENT, text)


def _wrap(text: str) -> list[str]:
    """The lines of a comment; the second and later ones are indented."""
    clean = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return textwrap.wrap(clean, _MAX_COMMENT, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
