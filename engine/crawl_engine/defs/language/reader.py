"""Reads YAML nodes as the structs that declare their keys, and reports each part that does not fit."""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct

from crawl_engine.defs.language.keys import is_task, keys_of, written_form
from crawl_engine.defs.language.kinds import KINDS, ValueInvalid, ValueKind
from crawl_engine.defs.language.unknown_keys import describe_other, describe_unknown
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import Entry, WrittenFloat, WrittenInt, YamlNode, plain_data
from crawl_engine.defs.yaml.redaction import describe_value, may_hold_secrets, shown_key
from crawl_engine.errors import suggest
from crawl_engine.model.bounds import describe_bounds
from crawl_engine.model.declaration import Declared, Kind, Shape, TypeHint, Wrapper, declarations_of, strip_hint
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.settings.values import parse_seconds

INVALID: Final = object()
"""In place of a value with a problem."""
Path = tuple[int | str, ...]
_NUMBERS: Mapping[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}


def _seconds_of(node: YamlNode) -> float | None:
    """The seconds of a text such as `500ms`; None for another."""
    try:
        return parse_seconds(node.text) if node.kind == "scalar" else None
    except ValueError:
        return None


class DefPart(Struct, frozen=True):
    """A value of the defs, and where it is written."""

    path: Path
    """The keys and positions that lead to it."""
    node: YamlNode
    place: SourcePosition
    """Of its key; of the value itself in a list."""

    @property
    def name(self) -> str:
        """The last key of its path."""
        return next((key for key in reversed(self.path) if isinstance(key, str)), "this item")

    @property
    def has_value(self) -> bool:
        """Whether it is a scalar other than null."""
        return self.node.kind == "scalar" and not self.node.is_null

    def at(self, key: str) -> "DefPart":
        """The value of a key of this mapping."""
        entry = self.node.entries[key]
        return DefPart((*self.path, key), entry.node, entry.place)

    def items(self) -> list["DefPart"]:
        """The items of this list; the value itself if it is not a list."""
        if self.node.kind != "list":
            return [self]
        return [DefPart((*self.path, index), item, item.place) for index, item in enumerate(self.node.items)]


Builder = Callable[[Any, DefPart], Any]
"""Makes the engine's struct from the written values."""


class Reader:
    """Reads the defs; `builders` are called for their struct while no part has a problem."""

    def __init__(self, problems: Problems, builders: Mapping[type, Builder]) -> None:
        self._problems = problems
        self._builders = builders

    def read(self, hint: TypeHint, part: DefPart) -> Any:
        """The value of a part by its type; INVALID, with problems, if it does not fit."""
        kind, shape, origin = hint.mark(Kind), hint.mark(Shape), get_origin(hint.base)
        if hint.base is Any:
            return plain_data(part.node.value())
        if origin is Literal:
            return self._read_choice(get_args(hint.base), part)
        if origin is tuple and kind is not None:
            return self._read_pair(hint.base, KINDS[kind.name], part)
        if origin is tuple and shape is not Shape.BY_NAME:
            return self._read_list(hint, part)
        if origin is tuple:
            items = self._read_entries(strip_hint(get_args(hint.base)[0]), part)
            return items if items is INVALID else tuple(items.values())
        if origin is Mapping:
            items = self._read_entries(strip_hint(get_args(hint.base)[1]), part)
            return items if items is INVALID else MappingProxyType(items)
        if kind is not None:
            return self._read_kind(KINDS[kind.name], part)
        if hint.base in _NUMBERS:
            return self._read_number(hint, part)
        if shape is Shape.MAPPING_OR_URL and part.has_value:
            entries = {"url": Entry(part.place, part.node)}
            part = DefPart(part.path, YamlNode("mapping", part.node.place, entries=entries), part.place)
        if shape is Shape.MAPPING_OR_KEY and part.has_value:
            if self._read_choice(tuple(keys_of(hint.base)), part) is INVALID:
                return INVALID
            place, empty = part.node.place, YamlNode("mapping", part.node.place)
            part = DefPart(part.path, YamlNode("mapping", place, entries={part.node.text: Entry(place, empty)}), place)
        if shape is Shape.MAPPING_OR_FILE and part.node.kind != "mapping":
            file = self.read(keys_of(hint.base)["file"].hint, part)
            return INVALID if file is INVALID else hint.base(file=file)
        if shape is Shape.MAPPING_OR_FALSE and part.node.value() is False:
            return None
        if shape is Shape.MAPPING_OR_MIN and part.node.kind != "mapping":
            least = self.read(keys_of(hint.base)["min"].hint, part)
            return INVALID if least is INVALID else hint.base(min=least)
        return self._read_struct(hint.base, part)

    def _read_choice(self, choices: Collection[str], part: DefPart, other: str = "") -> Any:
        value = part.node.value()
        if isinstance(value, str) and value in choices:
            return value
        message = f"`{part.name}` cannot be {part.node.describe()}"
        message += suggest(part.node.text, list(choices)) or other
        return self._add(part.node.place, "unknown-value", message)

    def _read_kind(self, kind: ValueKind, part: DefPart) -> Any:
        if kind.choices is not None:
            return self._read_choice(kind.choices, part, "; no installed package adds it")
        value = part.node.value()
        if kind.accepts == "any":
            text = part.node.text
        elif isinstance(value, bool) and kind.accepts == "constant":
            text = str(value).lower()
        elif isinstance(value, WrittenInt | WrittenFloat):
            text = value.written
        elif isinstance(value, str):
            text = value
        else:
            return self._add_wrong_type("a text", part)
        return self._check(kind, text, part)

    def _read_number(self, hint: TypeHint, part: DefPart) -> Any:
        types, words = _NUMBERS[hint.base]
        value, bounds = part.node.value(), hint.mark(Meta)
        if not isinstance(value, types) or isinstance(value, bool) != (hint.base is bool):
            seconds = _seconds_of(part.node) if hint.base is float else None
            cure = "" if seconds is None else f"; write {seconds:g}, in seconds"
            return self._add_wrong_type(words if bounds is None else f"{words} {describe_bounds(bounds)}", part, cure)
        for limit, words in ((bounds.ge, "at least"), (bounds.le, "at most")) if bounds is not None else ():
            if value < limit if words == "at least" else value > limit:
                written = describe_value(part.node, part.path)
                message = f"`{self._shown(part)}` must be {words} {limit:,}, not {written}"
                return self._add(part.node.place, "out-of-range", message)
        return plain_data(value)

    def _read_pair(self, type_: Any, kind: ValueKind, part: DefPart) -> Any:
        if part.node.kind != "list" or len(part.node.items) != len(get_args(type_)):
            message = "must be a list of pairs of a regular expression and a text: `[['€', '']]`"
            return self._add(part.node.place, "wrong-type", f"`{self._shown(part)}`: {message}")
        hints = map(strip_hint, get_args(type_))
        pair = tuple(self.read(hint, item) for hint, item in zip(hints, part.items(), strict=True))
        return INVALID if INVALID in pair else self._check(kind, pair, part)

    def _read_list(self, hint: TypeHint, part: DefPart) -> Any:
        item = strip_hint(get_args(hint.base)[0])
        items = tuple(self.read(item, inner) for inner in self.list_items(hint, part))
        return INVALID if INVALID in items else items

    def list_items(self, hint: TypeHint, part: DefPart) -> list[DefPart]:
        """The items of a list of that type; reports a value that is not a list."""
        shape, wrapper = hint.mark(Shape), hint.mark(Wrapper)
        texts = [item.text for item in part.node.items if item.kind == "scalar"]
        if get_origin(strip_hint(get_args(hint.base)[0]).base) is tuple and len(texts) == len(part.node.items) == 2:
            shown = ", ".join(texts)
            message = f"`{self._shown(part)}`: must be a list of pairs of a regular expression and a text"
            self._add(part.node.place, "wrong-type", f"{message}: write `[[{shown}]]`")
            return []
        if shape is Shape.LIST_OR_FALSE and part.node.value() is False:
            return []
        if part.node.kind != "list" and not (shape is Shape.ITEM_OR_LIST and part.has_value):
            self._add_wrong_type("a text or a list" if shape is Shape.ITEM_OR_LIST else "a list", part)
            return []
        return [inner for item in part.items() if (inner := self._unwrap(wrapper, item)) is not None]

    def _unwrap(self, wrapper: Wrapper | None, part: DefPart) -> DefPart | None:
        if wrapper is None:
            return part
        node = part.node.get(wrapper.key)
        if node is not None and node.kind == "mapping":
            return DefPart((*part.path, wrapper.key), node, node.place)
        message = f"an entry of `{part.name}` must be `{wrapper.key}: {wrapper.example}`, not {part.node.describe()}"
        self._add(part.place, "wrong-type", message)
        return None

    def _read_entries(self, item: TypeHint, part: DefPart) -> Any:
        if part.node.kind != "mapping":
            return self._add_wrong_type("a mapping", part)
        items = {key: self.read(item, part.at(key)) for key in part.node.entries}
        return INVALID if INVALID in items.values() else items

    def _read_struct(self, struct: type[Struct], part: DefPart) -> Any:
        keys = keys_of(struct)
        if part.node.kind != "mapping":
            has_cure = part.has_value and keys and part.path[-2:-1] != ("fields",) and not may_hold_secrets(part.path)
            cure = f"; write `{part.name}: {{{next(iter(keys))}: …}}`" if has_cure else ""
            return self._add_wrong_type("a mapping", part, cure)
        if declarations_of(written_form(struct)).others is None:
            for key in part.node.entries.keys() - keys.keys():
                self._add(part.node.entries[key].place, "unknown-key", describe_unknown(key, list(keys)))
        return self._read_keys(struct, part)

    def _read_keys(self, struct: type[Struct], part: DefPart) -> Any:
        """The struct of the keys that it declares; others are not its own."""
        form = written_form(struct)
        declared = declarations_of(form)
        has_tasks = declared.others is not None and get_origin(declared.others.hint.base) is tuple
        values: dict[str, Any] = {}
        for key, declaration in declared.keys.items():
            if key in part.node.entries and not (has_tasks and is_task(part.node.entries[key].node)):
                values[declaration.field] = self.read(declaration.hint, part.at(key))
            elif declaration.default is NODEFAULT:
                self._add(part.place, "missing-key", f"the key `{key}` is missing")
                values[declaration.field] = INVALID
        for field, inline in declared.inline:
            values[field] = self._read_keys(inline, part)
        if declared.others is not None:
            values[declared.others.field] = self._read_others(declared.others, keys_of(struct), part)
        if INVALID in values.values():
            return INVALID
        own = {"name": part.name, "place": part.place}
        keys = {declaration.field for declaration in declared.keys.values()}
        values |= {field: own[field] for field in own.keys() & {*form.__struct_fields__} - keys}
        written = form(**values)
        builder = self._builders.get(struct)
        return written if builder is None or self._problems.has_errors else builder(written, part)

    def _read_others(self, declaration: Declared, keys: Mapping[str, Declared], part: DefPart) -> Any:
        tasks = get_origin(declaration.hint.base) is tuple
        item = strip_hint(get_args(declaration.hint.base)[0 if tasks else 1])
        others = {}
        for key, entry in part.node.entries.items():
            if key not in keys or (tasks and is_task(entry.node)):
                inner = part.at(key)
                others[key] = self._add_no_task(inner, keys) if tasks and inner.has_value else self.read(item, inner)
        if INVALID in others.values():
            return INVALID
        return tuple(others.values()) if tasks else MappingProxyType(others)

    def _add_no_task(self, part: DefPart, keys: Mapping[str, Declared]) -> Any:
        message = f"'{part.name}' is neither a reserved key of a task group nor a task"
        other = describe_other(part.name, list(keys))
        message += f"; {other}" if other else suggest(part.name, list(keys))
        return self._add(part.place, "unknown-key", message)

    def _check(self, kind: ValueKind, value: Any, part: DefPart) -> Any:
        if kind.is_selector and part.node.comment:
            text = f"`{part.name}` ends before the comment {part.node.comment}; quote the text if it is a part of it"
            self._problems.warn(part.node.place, "comment", text)
        for code, find_problem in kind.checks:
            message = find_problem(value)
            if message is not None:
                return self._add_about(part, code, message)
        try:
            return kind.parse(value)
        except ValueInvalid as error:
            return self._add_about(part, error.code, str(error))

    def _add_about(self, part: DefPart, code: str, message: str) -> Any:
        separator = "" if message.startswith("must ") else ":"
        return self._add(part.node.place, code, f"`{self._shown(part)}`{separator} {message}")

    def _add_wrong_type(self, expected: str, part: DefPart, cure: str = "") -> Any:
        texts = [item.text for item in part.node.items if item.kind == "scalar"]
        if part.node.is_null and part.node.comment and not may_hold_secrets(part.path):
            cure = f"; a `#` behind a space begins a comment: quote '{part.node.comment}'"
        if part.path[-2:-1] == ("fields",) and part.has_value:
            cure = f"; write `{self._shown(part)}: {{selector: {part.node.text}}}`"
        elif expected == "a list" and part.has_value:
            cure = f"; write `{part.name}: [{'…' if may_hold_secrets(part.path) else part.node.text}]`"
        elif expected == "a text" and part.name == "selector" and texts:
            cure = f"; write `selector: '{', '.join(texts)}'`"
        elif expected == "a text" and part.name == "url" and texts:
            cure = "; write `urls: […]`"
        message = f"`{self._shown(part)}` must be {expected}, not {describe_value(part.node, part.path)}{cure}"
        return self._add(part.place if part.node.is_null else part.node.place, "wrong-type", message)

    def _add(self, place: SourcePosition, code: str, message: str) -> Any:
        self._problems.add(place, code, message)
        return INVALID

    def _shown(self, part: DefPart) -> str:
        return shown_key(part.name) if may_hold_secrets(part.path) else part.name
