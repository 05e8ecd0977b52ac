"""Parses strict YAML: one document per file, no duplicate keys, bounded depth and aliases.

Uses parser events: PyYAML's composer recurses in C and crashes on deeply nested input.
"""

import re
from typing import Any

import yaml
from msgspec import Struct, field

from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import Entry, YamlNode
from crawl_engine.defs.yaml.redaction import shown_key
from crawl_engine.late_regex import late_regex
from crawl_engine.model.stored_form import SourcePosition

MAX_DEPTH = 40
MAX_ALIASED = 10_000
"""The maximum number of nodes that all aliases of a file expand to."""

_FORBIDDEN = late_regex("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COMMENT = late_regex(r"\s+(#[\w-][^\s,}\]]*)")
_LOST_TEXT = late_regex(r"[:,\[{](?:\s+[^\s\"'#][^\"'#]*)?\s+(#[\w-][^\s,}\]]*)")
_PLAIN_TAGS = frozenset({None, "!"} | {f"tag:yaml.org,2002:{kind}" for kind in ("str", "map", "seq")})


class _ParseAborted(Exception):
    """Parsing cannot continue; the problem is already added."""


def parse(text: str, file: str, problems: Problems) -> YamlNode | None:
    """The root of a file; None if it is empty or invalid, which adds a problem."""
    forbidden = _FORBIDDEN.search(text)
    if forbidden:
        line = text.count("\n", 0, forbidden.start()) + 1
        column = forbidden.start() - text.rfind("\n", 0, forbidden.start())
        code = f"U+{ord(forbidden.group()):04X}"
        problems.add(
            SourcePosition(file, line, column), "bad-yaml", f"the character {code} is not allowed in YAML; remove it"
        )
        return None
    builder = _TreeBuilder(file, problems, text.splitlines())
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.handle_event(event)
    except _ParseAborted:
        return None
    except yaml.YAMLError as error:
        lost = _find_comment(error, builder.lines) if isinstance(error, yaml.MarkedYAMLError) else None
        if lost is not None:
            place, message = SourcePosition(file, lost[0] + 1, lost[1].start(1) + 1), _quote_hash(lost[1][1])
        else:
            place, message = _error_place(error, file), _error_message(error, builder.lines)
        problems.add(place, "bad-yaml", message)
        return None
    return builder.root


class _Frame(Struct):
    """An open mapping or list."""

    node: YamlNode
    anchor: str | None
    key: tuple[str, SourcePosition] | None = None
    expects_key: bool = True
    skip: bool = False
    """The next value belongs to a rejected key."""
    merge: SourcePosition | None = None
    """Of the key `<<`."""
    merged: set[str] = field(default_factory=set)
    """Keys that `<<` gave, which written ones replace."""


class _TreeBuilder(Struct):
    file: str
    problems: Problems
    lines: list[str]
    root: YamlNode | None = None
    stack: list[_Frame] = field(default_factory=list)
    anchors: dict[str, YamlNode | None] = field(default_factory=dict)
    """None while the anchored node is still open."""
    document_count: int = 0
    aliased_nodes: int = 0

    def handle_event(self, event: yaml.Event) -> None:
        """Adds one parser event to the tree."""
        place = _to_place(event.start_mark, self.file)
        if isinstance(event, yaml.ScalarEvent):
            self._check_tag(event, place)
            plain = event.style in (None, "") and event.implicit[0]
            node = YamlNode("scalar", place, text=event.value, plain=plain)
            if plain and event.end_mark is not None:
                node.comment = self._comment_at(event.end_mark)
            if event.anchor:
                self.anchors[event.anchor] = node
            self._add(node)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._check_tag(event, place)
            self._push(
                YamlNode("mapping" if isinstance(event, yaml.MappingStartEvent) else "list", place), event.anchor
            )
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            frame = self.stack.pop()
            if frame.anchor:
                self.anchors[frame.anchor] = frame.node
            self._add(frame.node)
        elif isinstance(event, yaml.AliasEvent):
            self._expand_alias(event.anchor or "", place)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.document_count += 1
            if self.document_count > 1:
                self._abort(place, "a second document starts here; write one document per file")

    def _comment_at(self, mark: Any) -> str:
        line = self.lines[mark.line] if mark.line < len(self.lines) else ""
        found = _COMMENT.match(line, mark.column)
        return "" if found is None else found[1]

    def _push(self, node: YamlNode, anchor: str | None) -> None:
        if len(self.stack) >= MAX_DEPTH:
            self._abort(node.place, f"nested deeper than {MAX_DEPTH} levels")
        if anchor:
            self.anchors[anchor] = None
        self.stack.append(_Frame(node, anchor))

    def _expand_alias(self, name: str, place: SourcePosition) -> None:
        node = self.anchors.get(name)
        if node is None:
            message = (
                "an alias cannot contain itself"
                if name in self.anchors
                else "there is no anchor of that name before it; quote a text that starts with *"
            )
            self._abort(place, message)
            return
        self.aliased_nodes += node.size
        if self.aliased_nodes > MAX_ALIASED or len(self.stack) + node.height > MAX_DEPTH:
            self._abort(
                place, f"the aliases of this file expand to more than {MAX_ALIASED} nodes or {MAX_DEPTH} levels"
            )
        self._add(node)

    def _add(self, node: YamlNode) -> None:
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        parent = frame.node
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)
        if parent.kind == "list":
            parent.items.append(node)
        elif frame.expects_key:
            frame.expects_key = False
            self._set_key(frame, node)
        else:
            frame.expects_key = True
            if frame.skip:
                frame.skip = False
            elif frame.key is None:
                self._merge(frame, node)
            else:
                parent.entries[frame.key[0]] = Entry(frame.key[1], node)

    def _set_key(self, frame: _Frame, node: YamlNode) -> None:
        frame.skip = True
        if node.kind != "scalar":
            self.problems.add(node.place, "bad-yaml", f"a key must be a text, not {node.describe()}")
        elif node.is_null:
            self.problems.add(node.place, "bad-yaml", "a key is missing before the colon")
        elif node.plain and node.text == "<<":
            if frame.merge is None:
                frame.skip, frame.key, frame.merge = False, None, node.place
                return
            message = f"`<<` is already written on line {frame.merge.line}; merge a list there: `<<: [*one, *other]`"
            self.problems.add(node.place, "duplicate-key", message)
        elif node.text in frame.node.entries and node.text not in frame.merged:
            first = frame.node.entries[node.text].place
            message = f"'{shown_key(node.text)}' is already defined on line {first.line}; remove one"
            self.problems.add(node.place, "duplicate-key", message)
        else:
            frame.skip = False
            frame.key = (node.text, node.place)
            frame.merged.discard(node.text)

    def _merge(self, frame: _Frame, node: YamlNode) -> None:
        """Add the keys of a mapping, or of several, that are not written in the one with `<<`. The first counts."""
        for source in node.items if node.kind == "list" else [node]:
            if source.kind != "mapping":
                message = "`<<` merges a mapping, or a list of mappings; write for example `<<: *name`"
                self.problems.add(source.place, "bad-yaml", message)
            for key, entry in source.entries.items():
                if key not in frame.node.entries:
                    frame.node.entries[key] = entry
                    frame.merged.add(key)

    def _check_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, place: SourcePosition) -> None:
        if event.tag not in _PLAIN_TAGS:
            self.problems.add(
                place, "bad-yaml", "a tag is not supported here; remove it, or quote a text that starts with !"
            )

    def _abort(self, place: SourcePosition, message: str) -> None:
        self.problems.add(place, "bad-yaml", message)
        raise _ParseAborted


def _describe_indent(problem: str, number: int, column: int, lines: list[str]) -> str:
    """What is wrong with the indent of a line; empty if that is not what is wrong. `column`: of the problem."""
    indents = [_indent(line) for line in lines[:number] if _has_text(line)]
    here = _indent(lines[number]) if number < len(lines) else 0
    if not indents or not lines[number : number + 1] or not lines[number].strip():
        return ""
    is_odd_key = "did not find expected key" in problem
    if here > indents[-1] and ("mapping values are not allowed" in problem or (is_odd_key and column == here)):
        return f"wrong indent: {here} spaces, and the line above, which is complete, has {indents[-1]}"
    if is_odd_key and here < indents[-1] and here not in indents:
        outer = max((one for one in indents if one < here), default=0)
        return f"wrong indent: {here} spaces; the lines above have {outer} and {min(i for i in indents if i > here)}"
    return ""


def _has_text(line: str) -> bool:
    return line.strip() != "" and not line.lstrip().startswith("#")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _error_place(error: yaml.YAMLError, file: str) -> SourcePosition:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return _to_place(mark, file)


def _to_place(mark: Any, file: str) -> SourcePosition:
    return SourcePosition(file, 1, 1) if mark is None else SourcePosition(file, mark.line + 1, mark.column + 1)


def _find_comment(error: yaml.MarkedYAMLError, lines: list[str]) -> tuple[int, re.Match[str]] | None:
    """The number of a line of an open `{…}` or `[…]` that ends in a comment, such as `{selector: #id}`."""
    opened, mark, context = error.context_mark, error.problem_mark, error.context or ""
    if opened is None or mark is None or "flow" not in context:
        return None
    first: int = opened.line
    if "node" in context:  # this is where the text was to begin: behind the line of the comment
        first = next((at for at in reversed(range(min(first, len(lines)))) if _has_text(lines[at])), first)
    found = ((at, _LOST_TEXT.search(lines[at])) for at in range(first, min(mark.line + 1, len(lines))))
    return next(((at, comment) for at, comment in found if comment is not None), None)


def _quote_hash(comment: str) -> str:
    return f"a `#` behind a space begins a comment; quote the text: '{comment}'"


def _error_message(error: yaml.YAMLError, lines: list[str]) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"not YAML: {error}"
    problem = error.problem or "not YAML"
    mark = error.problem_mark
    at = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    if mark is not None and at[mark.column : mark.column + 1] == "\t":
        return "a tab cannot indent; use spaces"
    if mark is not None and error.context in ("while scanning an alias", "while scanning an anchor"):
        sign = at[mark.column - 1 : mark.column] or "*"
        return f"a text may not begin with {sign}; quote it: '{sign}'"
    if mark is not None and (indent := _describe_indent(problem, mark.line, mark.column, lines)):
        return indent
    if "mapping values are not allowed" in problem:
        return f"{problem}; quote a text that contains `: `"
    if "cannot start any token" in problem:
        return f"{problem}; quote a text that starts with %, @ or a backquote"
    if "unknown escape character" in problem:
        return f"{problem}; in double quotes write two backslashes, or use single quotes"
    if re.search(r"[a-z]+://[^\s\"']*\{", at[: mark.column + 1 if mark is not None else 0]):
        return f"{problem}; quote a URL that contains braces"
    if re.search(r"\{(dataDef|run\.[a-z]+)\}", at):
        return f"{problem}; quote a path that contains braces"
    sign = "" if mark is None else at[mark.column : mark.column + 1]
    if "did not find expected ',' or" in problem and sign in ("[", "{", ":"):
        return f"{problem}; quote a text that contains {sign}"
    opened = error.context_mark
    where = f" that begins in line {opened.line + 1}" if opened is not None and error.context else ""
    return f"{problem}, {error.context}{where}" if error.context else problem
