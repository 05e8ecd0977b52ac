"""How the defs are stored: structs as JSON values, and back."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from msgspec import Struct


class SourcePosition(Struct, frozen=True):
    """Where a part of the defs is written: a path below the defs dir, 1-based line and column."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


NO_POSITION = SourcePosition("", 0, 0)


class OmitDefault(Struct, frozen=True):
    """Marks a field that is not written while it has its default."""


OMIT_DEFAULT: Final = OmitDefault()
"""For every field that is added to a struct of the defs: defs that do not use it keep their hashes and their keys."""


_PLACES = frozenset(("place", "selector_place", "block_place", "files"))
"""Fields that say where a part of the defs is written, not what it means."""


def to_plain(value: Any, *, places: bool = True) -> Any:
    """The JSON values of a part of the defs, without defaults of OMIT_DEFAULT. `places`: include positions."""
    if isinstance(value, SourcePosition):
        return [value.file, value.line, value.column]
    if isinstance(value, Struct):
        omitted = _omitted_defaults(type(value))
        return {
            name: to_plain(getattr(value, name), places=places)
            for name in value.__struct_fields__
            if (places or name not in _PLACES) and not (name in omitted and getattr(value, name) == omitted[name])
        }
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, places=places) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item, places=places) for item in value]
    return value


def from_plain(kind: Any, value: Any) -> Any:
    """Rebuild a part of the defs of this type from the JSON values of `to_plain`."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        if kind is SourcePosition:
            return SourcePosition(*value)
        types = _field_types(kind)
        return kind(**{name: from_plain(types[name], item) for name, item in value.items() if name in types})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        inner = [a for a in arguments if a is not type(None)]
        return None if value is None else from_plain(inner[0], value)
    if origin is tuple:
        return tuple(from_plain(arguments[0], item) for item in value)
    if origin is Mapping:
        return MappingProxyType({key: from_plain(arguments[1], item) for key, item in value.items()})
    return value


@cache
def _field_types(kind: type[Struct]) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _omitted_defaults(kind: type[Struct]) -> dict[str, Any]:
    """The fields of OMIT_DEFAULT with their defaults, which are no factories."""
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        hints.update(vars(base).get("__annotations__", {}))
    with_default = kind.__struct_fields__[len(kind.__struct_fields__) - len(kind.__struct_defaults__) :]
    return {
        name: default
        for name, default in zip(with_default, kind.__struct_defaults__, strict=True)
        if get_origin(hints[name]) is Annotated and OMIT_DEFAULT in hints[name].__metadata__
    }
