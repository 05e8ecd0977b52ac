"""The nodes of a YAML tree, with their places in the file."""

from collections.abc import Iterator
from math import isfinite
from typing import Any, Literal

from msgspec import Struct, field

from crawl_engine.late_regex import late_regex
from crawl_engine.model.stored_form import SourcePosition

_INT = late_regex(r"[-+]?(?:0|[1-9][0-9]{0,17})")  # longer ones are identifiers and must keep all digits
_FLOAT = late_regex(r"[-+]?(?:(?:0|[1-9][0-9]*)?\.[0-9]+|(?:0|[1-9][0-9]*)\.?)(?:[eE][-+]?[0-9]{1,4})?")
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


Keys = tuple[str, ...]


class WrittenInt(int):
    """An integer with its source text, for keys that take a text."""

    written: str


class WrittenFloat(float):
    """A float with its source text: `0.10` keeps both digits."""

    written: str


class YamlNode(Struct):
    """A mapping, list or scalar; `place` is its start. Accessors return an empty result for a wrong kind."""

    kind: Literal["mapping", "list", "scalar"]
    place: SourcePosition
    text: str = ""
    """The text of a scalar, unquoted and unescaped."""
    plain: bool = False
    """Whether a scalar is unquoted, so that it may be a number, a bool or null."""
    comment: str = ""
    """The comment behind it that could be meant as its text: `#id`, without a space behind the `#`."""
    entries: dict[str, "Entry"] = field(default_factory=dict)
    items: list["YamlNode"] = field(default_factory=list)
    size: int = 1
    """The number of nodes in this subtree, with aliases expanded."""
    height: int = 1

    def get(self, key: str) -> "YamlNode | None":
        """The value of a key; None if it is missing or null."""
        entry = self.entries.get(key)
        return None if entry is None or entry.node.is_null else entry.node

    def entries_of(self, key: str) -> Iterator[tuple[str, "Entry"]]:
        """The entries of the mapping under a key, in written order."""
        section = self.get(key)
        if section is not None:
            yield from section.entries.items()

    def list_of(self, key: str) -> list["YamlNode"]:
        """The items of a list under a key."""
        node = self.get(key)
        return node.items if node is not None else []

    def has_empty_list(self, key: str) -> bool:
        """Whether the value of a key is a list without items."""
        node = self.get(key)
        return node is not None and node.kind == "list" and not node.items

    def is_true(self, key: str) -> bool:
        """Whether the value of a key reads true."""
        return (self.text_of(key) or "").lower() == "true"

    def text_of(self, key: str) -> str | None:
        """The text of a scalar under a key."""
        node = self.get(key)
        return node.text if node is not None and node.kind == "scalar" else None

    def key_place(self, key: str) -> SourcePosition:
        """The place of a key; the node's own place if it is not written."""
        entry = self.entries.get(key)
        return self.place if entry is None else entry.place

    @property
    def is_null(self) -> bool:
        """Whether the node is empty or a plain null."""
        return self.kind == "scalar" and self.plain and self.text in _NULLS

    def value(self) -> Any:
        """The node as Python data: dict, list, str, bool, None, `WrittenInt`, `WrittenFloat`."""
        if self.kind == "mapping":
            return {key: entry.node.value() for key, entry in self.entries.items()}
        if self.kind == "list":
            return [item.value() for item in self.items]
        return _parse_scalar(self.text) if self.plain else self.text

    def describe(self) -> str:
        """Describes the node for a message: `a list`, `the text 'fast'`, `nothing`."""
        if self.kind != "scalar":
            return f"a {self.kind}"
        value = self.value()
        if value is None:
            return "nothing"
        short = self.text if len(self.text) <= 40 else self.text[:39] + "…"
        if isinstance(value, str):
            return f"the text {short!r}"
        return f"`{short}`"


class Entry(Struct, frozen=True):
    """One key of a mapping: its place and its value."""

    place: SourcePosition
    node: YamlNode


def iter_scalars(node: YamlNode, keys: Keys = ()) -> Iterator[tuple[Keys, YamlNode]]:
    """The scalars below a node, each with the keys that lead to it."""
    if node.kind == "scalar":
        yield keys, node
    for item in node.items:
        yield from iter_scalars(item, keys)
    for key, entry in node.entries.items():
        yield from iter_scalars(entry.node, (*keys, key))


def plain_data(value: Any) -> Any:
    """The data of `YamlNode.value()` with ordinary numbers, ready to be stored."""
    if isinstance(value, dict):
        return {key: plain_data(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_data(item) for item in value]
    if isinstance(value, WrittenInt):
        return int(value)
    return float(value) if isinstance(value, WrittenFloat) else value


def _parse_scalar(text: str) -> Any:
    """Parses a plain scalar by the YAML 1.2 core schema; forms that only YAML 1.1 converts stay texts."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if _INT.fullmatch(text):
        whole = WrittenInt(text)
        whole.written = text
        return whole
    if _FLOAT.fullmatch(text) and not text.lstrip("+-").isdigit():
        number = WrittenFloat(text)
        number.written = text
        return number if isfinite(number) else text
    return text
