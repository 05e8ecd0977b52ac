"""How the defs are stored: dataclasses as JSON values, and back."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass
from types import MappingProxyType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """Where a part of the defs is written: a path below the defs dir, 1-based line and column."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


NO_POSITION = SourcePosition("", 0, 0)

ADDED_LATER = MappingProxyType({"added_later": True})
"""Metadata of a field that older definitions lack: with its default it is not stored, so that no hash changes."""


def to_plain(value: Any, *, places: bool = True) -> Any:
    """The JSON values of a part of the defs. `places`: with the positions."""
    if is_dataclass(value) and not isinstance(value, type):
        if isinstance(value, SourcePosition):
            return list(asdict(value).values())
        return {
            f.name: to_plain(getattr(value, f.name), places=places)
            for f in fields(value)
            if not f.name.startswith("_")
            and (places or f.name not in ("place", "files"))
            and not ("added_later" in f.metadata and getattr(value, f.name) == _default(f))
        }
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, places=places) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item, places=places) for item in value]
    return value


def from_plain(kind: Any, value: Any) -> Any:
    """The part of the defs of this type that `to_plain` turned into JSON values."""
    if is_dataclass(kind) and isinstance(kind, type):
        if kind is SourcePosition:
            return SourcePosition(*value)
        hints = get_type_hints(kind)
        return kind(**{name: from_plain(hints[name], item) for name, item in value.items() if name in hints})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        inner = [a for a in arguments if a is not type(None)]
        return None if value is None else from_plain(inner[0], value)
    if origin is tuple:
        return tuple(from_plain(arguments[0], item) for item in value)
    if origin is Mapping:
        return MappingProxyType(dict(value))
    return value


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
