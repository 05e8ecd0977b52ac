"""Strict YAML: one document a file, no duplicate keys, bounded depth and aliases. The only module that parses YAML.

Works on parser events, not on PyYAML's composer: that one recurses in C and dies on deeply nested input.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from engine.defs.problems import Problems
from engine.defs.yaml_node import Entry, Node
from engine.model.definition import Place

MAX_DEPTH = 40
MAX_ALIASED = 10_000
"""Nodes that all aliases of a file may add up to."""

_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PLAIN_TAGS = frozenset({None, "!"} | {f"tag:yaml.org,2002:{kind}" for kind in ("str", "map", "seq")})


class _Stop(Exception):
    """The file cannot be read any further; the problem is already noted."""


def parse(text: str, file: str, problems: Problems) -> Node | None:
    """The root of a file; None when it is empty, or broken, which adds a problem."""
    bad = _FORBIDDEN.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - text.rfind("\n", 0, bad.start())
        code = f"U+{ord(bad.group()):04X}"
        problems.add(Place(file, line, column), "bad-yaml", f"the character {code} cannot stand in YAML; remove it")
        return None
    builder = _Builder(file, problems)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.take(event)
    except _Stop:
        return None
    except yaml.YAMLError as error:
        problems.add(_mark_of(error, file), "bad-yaml", _told(error, text))
        return None
    return builder.root


@dataclass(slots=True)
class _Frame:
    """A mapping or list that is still open."""

    node: Node
    anchor: str | None
    key: tuple[str, Place] | None = None
    awaits_key: bool = True
    skip: bool = False
    """The value to come belongs to a key that was refused."""


@dataclass(slots=True)
class _Builder:
    file: str
    problems: Problems
    root: Node | None = None
    stack: list[_Frame] = field(default_factory=list)
    anchors: dict[str, Node | None] = field(default_factory=dict)
    """None while the anchored node is still open."""
    documents: int = 0
    aliased: int = 0

    def take(self, event: yaml.Event) -> None:
        """Builds on by one parser event."""
        place = _place(event.start_mark, self.file)
        if isinstance(event, yaml.ScalarEvent):
            self._tag(event, place)
            plain = event.style in (None, "") and event.implicit[0]
            node = Node("scalar", place, text=event.value, plain=plain)
            if event.anchor:
                self.anchors[event.anchor] = node
            self._add(node)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._tag(event, place)
            self._open(Node("mapping" if isinstance(event, yaml.MappingStartEvent) else "list", place), event.anchor)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            frame = self.stack.pop()
            if frame.anchor:
                self.anchors[frame.anchor] = frame.node
            self._add(frame.node)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor or "", place)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self._stop(place, "a second document begins here; write one document a file")

    def _open(self, node: Node, anchor: str | None) -> None:
        if len(self.stack) >= MAX_DEPTH:
            self._stop(node.place, f"nested deeper than {MAX_DEPTH} levels")
        if anchor:
            self.anchors[anchor] = None
        self.stack.append(_Frame(node, anchor))

    def _alias(self, name: str, place: Place) -> None:
        node = self.anchors.get(name)
        if node is None:
            what = "an alias to what it stands in" if name in self.anchors else f"an alias to no anchor named '{name}'"
            self._stop(place, what)
            return
        self.aliased += node.size
        if self.aliased > MAX_ALIASED or len(self.stack) + node.height > MAX_DEPTH:
            self._stop(place, f"the aliases of this file unfold to more than {MAX_ALIASED} nodes or {MAX_DEPTH} levels")
        self._add(node)

    def _add(self, node: Node) -> None:
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        parent = frame.node
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)
        if parent.kind == "list":
            parent.items.append(node)
        elif frame.awaits_key:
            frame.awaits_key = False
            self._key(frame, node)
        else:
            frame.awaits_key = True
            if frame.skip:
                frame.skip = False
            elif frame.key is not None:
                parent.entries[frame.key[0]] = Entry(frame.key[1], node)

    def _key(self, frame: _Frame, node: Node) -> None:
        frame.skip = True
        if node.kind != "scalar":
            self.problems.add(node.place, "bad-yaml", f"a key must be a text, not {node.described()}")
        elif node.is_null:
            self.problems.add(node.place, "bad-yaml", "a key is missing before the colon")
        elif node.plain and node.text == "<<":
            self.problems.add(node.place, "bad-yaml", "merge keys (`<<`) are not part of YAML 1.2; write the keys out")
        elif node.text in frame.node.entries:
            first = frame.node.entries[node.text].place
            message = f"'{node.text}' is already written on line {first.line}; remove one of the two"
            self.problems.add(node.place, "duplicate-key", message)
        else:
            frame.skip = False
            frame.key = (node.text, node.place)

    def _tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, place: Place) -> None:
        if event.tag not in _PLAIN_TAGS:
            self.problems.add(place, "bad-yaml", f"the tag `{event.tag}` has no meaning here; remove it")

    def _stop(self, place: Place, message: str) -> None:
        self.problems.add(place, "bad-yaml", message)
        raise _Stop


def _mark_of(error: yaml.YAMLError, file: str) -> Place:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return _place(mark, file)


def _place(mark: Any, file: str) -> Place:
    return Place(file, 1, 1) if mark is None else Place(file, mark.line + 1, mark.column + 1)


def _told(error: yaml.YAMLError, text: str) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"not YAML: {error}"
    what = error.problem or "not YAML"
    mark = error.problem_mark
    lines = text.splitlines()
    at = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    if mark is not None and at[mark.column : mark.column + 1] == "\t":
        return "a tab cannot indent; use spaces"
    if "mapping values are not allowed" in what:
        return f"{what}; quote a text that holds `: `"
    if "cannot start any token" in what:
        return f"{what}; quote a text that begins with %, @ or a backquote"
    return f"{what}, {error.context}" if error.context else what
